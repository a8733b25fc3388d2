"""Protocol of publication: stage, audit, commit, verify.

A *sink* is a kind of place that tables are published to. It keeps one promise: readers find the tables of one run,
whole, at every moment, whatever dies when. Four steps keep it, in this order, and :func:`publish` is the only place
that knows the order.

**Stage.** The sink writes all tables of the run under a name that no reader looks at, and notes for every file that it
wrote a checksum. If a table fails, it removes what it has written. A caller that worked for long before it stages asks
the sink for its *base* when it begins: what readers have then. If they have another run by now, nothing is written.

**Audit.** The caller reads the staged tables as they were written, not as they were meant, and raises to refuse them.
The sink then discards them. A run that publishes nothing to be audited passes no audit.

**Commit.** The sink makes the staged tables the current ones in one step, together with the run's record. If another
run was committed since the base was noted, it changes nothing and raises ConflictError: one of two publishers wins. A
process that is killed during the commit leaves the old run or the new one. The next publisher clears up the rest.

**Verify.** The sink reads back what readers now find, once, and compares it with the checksums of what was written. If
anything differs, it withdraws the run, so that readers are back on the run before, and raises. A process that is
killed before this step leaves a run that is published and not verified. Its checksums stay with it.

A new sink is a class with these methods. Docs/how-to/add-a-sink.md goes through one.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

Tables = Mapping[str, DataFrame]
# Writes something that is no table to the URI that it is given, a directory that does not exist yet.
Save = Callable[[str], object]
Folders = Mapping[str, Save]
# A record is the content of run.json: plain values, lists and dictionaries.
Record = Mapping[str, object]
Staged = TypeVar("Staged")
Base = TypeVar("Base")


class Sink(Protocol[Staged, Base]):
    """A place to publish to. ``Staged`` : what is written and not published. ``Base`` : what readers have."""

    def base(self) -> Base:
        """Note what readers have now."""

    def stage(self, run_id: str, tables: Tables, folders: Folders, base: Base | None = None) -> Staged:
        """Write where no reader looks, and leave nothing on failure.

        base : what readers had when the run began. None: what they have now.
        Raises ConfigError: the place is unusable. ConflictError: readers have another run than then.
        """

    def commit(self, staged: Staged, record: Record) -> str:
        """Make what is staged current. Returns where it is. Raises ConflictError: another run was faster."""

    def verify(self, staged: Staged) -> None:
        """Compare what readers find with what was written. Raises DcrecError: it differs. The run before is back."""

    def discard(self, staged: Staged) -> None:
        """Remove what is staged. Fine when it is gone or committed."""


def publish(
    sink: Sink[Staged, Base],
    run_id: str,
    tables: Tables,
    record: Callable[[Staged], Record],
    audit: Callable[[Staged], None] | None = None,
    folders: Folders | None = None,
    base: Base | None = None,
) -> str:
    """Stage, audit, commit, verify. Whatever fails, readers have all of the old tables.

    run_id : name of the run. A published one is never used again.
    record : makes the record of the run, when the tables are staged and audited.
    audit : raises AuditError to refuse the staged tables.
    folders : what else appears with the tables, such as a model, by name.
    base : what readers had when the run began. None: what they have when it is staged.
    Returns where the run is, for people.
    Raises ConfigError, AuditError, ConflictError, DcrecError: as the steps above say.
    """
    staged = sink.stage(run_id, tables, folders or {}, base)
    try:
        if audit is not None:
            audit(staged)
        where = sink.commit(staged, record(staged))
    except BaseException:
        sink.discard(staged)
        raise
    sink.verify(staged)
    return where
