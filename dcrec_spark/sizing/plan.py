"""What ``dcrec plan`` prints: seconds by stage, bytes, a cluster that is large enough, and how far to trust it."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from dcrec_spark.sizing.estimate import Course, cores_for, measured, whole
from dcrec_spark.sizing.work import (
    Size,
    blocks,
    bytes_of_a_sweep,
    bytes_of_a_worker,
    bytes_of_blocks,
)

_NAMES = {
    "layout": "ids, blocks, first iteration",
    "iteration": "stage 1: {iterations:,} iterations",
    "between": "users settle, a_hat, first sweep",
    "sweep": "stage 2: {others:,} further sweeps",
    "tables": "tables of the factors",
    "ranking": "rank all users",
}
# A rule of thumb, not measured: a JVM needs as much again as what is cached in it.
_HEADROOM = 2.0
# The last two sweeps' results stay until they are replaced. What is shuffled stays until a checkpoint ends the lineage
# that it belongs to, and up to the next one, when its files are deleted.
_KEPT, _CHECKPOINTS = 2.0, 2.0


def planned(size: Size, course: Course, cores: int | None, hours: float, cores_per_executor: int) -> Group:
    """Show what a fit and its ranking take, on so many cores or as few as the hours allow.

    Raises
    ------
    ConfigError : no number of cores is enough for so few hours.
    """
    return shown(size, course, cores or cores_for(size, course, hours * 3600), cores_per_executor)


def shown(size: Size, course: Course, cores: int, cores_per_executor: int) -> Group:
    """Show what a fit and its ranking take on so many cores, and the executors that this calls for."""
    taken = whole(size, cores, course)
    stages = Table(box=None, header_style="bold", pad_edge=False)
    stages.add_column("stage")
    for name in ("time", "share"):
        stages.add_column(name, justify="right")
    total = sum(taken.values())
    for stage, seconds in taken.items():
        name = _NAMES[stage].format(iterations=course.iterations, others=max(0, course.sweeps - 1))
        stages.add_row(name, duration(seconds), f"{seconds / total:.0%}")
    stages.add_row("[bold]together[/]", f"[bold]{duration(total)}[/]", "")
    executors = -(-cores // cores_per_executor)
    worker, kept = bytes_of_a_worker(size, cores), bytes_of_blocks(size)
    memory = _HEADROOM * kept / executors + cores_per_executor * worker
    sizes = Table(box=None, show_header=False, pad_edge=False)
    sizes.add_row("executors", f"{executors:,} of {cores_per_executor} cores, with {amount(memory)} each at least")
    of_users, of_items = blocks(size, cores)
    sizes.add_row("blocks", f"{of_users:,} of users, {of_items:,} of items; on the cluster {amount(kept)}")
    sizes.add_row("workers", f"{amount(worker)} at most of each Python worker, of which a core has one")
    sent = bytes_of_a_sweep(size, cores)
    sizes.add_row("a sweep", f"{amount(sent)} over the network at most")
    every = course.checkpoint_interval
    on_disk = amount((_KEPT + _CHECKPOINTS * every) * sent / executors)
    after = "after each sweep" if every == 1 else f"after every {every} sweeps"
    sizes.add_row("local disks", f"{on_disk} of each executor at most, with a checkpoint {after}")
    return Group(stages, Text(), sizes, Text(), Text(_trust(size, cores), style="dim"))


def _trust(size: Size, cores: int) -> str:
    facts = measured()["measured"]
    error = facts["off_on_held_out"]
    text = (
        f"Measured with up to {facts['most_ratings']:,} ratings on {facts['most_cores']} cores of one machine; a stage "
        f"of a fit that was held out took up to {error['worst']:g} times what was said, or as many times less (median "
        f"{error['median']:g})."
    )
    beyond = [
        said
        for said, is_beyond in (
            (
                f"{size.ratings / facts['most_ratings']:,.0f} times as many ratings",
                size.ratings > facts["most_ratings"],
            ),
            ("more cores, which are taken to share the work evenly", cores > facts["most_cores"]),
        )
        if is_beyond
    ]
    return f"{text} Beyond that here: {'; '.join(beyond)}. The network's time is not in it." if beyond else text


def duration(seconds: float) -> str:
    """Say how long in the units that people use: 0.4 s, 3 min, 2.5 h."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def amount(size: float) -> str:
    """Say how many bytes: 12 MB, 3.4 GB, 1.2 TB."""
    for unit, length in (("TB", 2.0**40), ("GB", 2.0**30)):
        if size >= length:
            return f"{size / length:,.1f} {unit}"
    return f"{size / 2**20:,.0f} MB"
