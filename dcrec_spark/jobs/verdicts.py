"""What the audit has found beside its limits: kept in the record of the run, whether it is published or not."""

from dataclasses import dataclass, field

from dcrec_spark.errors import AuditError, DcrecError


@dataclass(frozen=True)
class Verdict:
    """One figure beside its limit.

    check : its setting, without ``audit.``. found, limit : numbers. passed : whether it keeps to the limit. about : the
    sentence that says so. low, high : interval of what was found, where there is one.
    """

    check: str
    found: float
    limit: float
    passed: bool
    about: str
    low: float | None = None
    high: float | None = None


@dataclass
class Verdicts:
    """All verdicts of a run. forced : checks that failed, and were published all the same."""

    all: list[Verdict] = field(default_factory=list)
    forced: list[str] = field(default_factory=list)

    def enforce(self, found: list[Verdict], force: bool, error: type[DcrecError] = AuditError) -> list[str]:
        """Keep verdicts; refuse where one has failed, or warn where ``force`` says to go on.

        Returns
        -------
        list of str
            Warnings.

        Raises
        ------
        DcrecError : of the given type; names each failure, and what to do.
        """
        self.all += found
        failed = [verdict for verdict in found if not verdict.passed]
        sentences = [f"{verdict.about} (setting audit.{verdict.check}={verdict.limit:g})" for verdict in failed]
        if failed and not force:
            raise error(
                f"the run was not published: {'; '.join(sentences)}; look at the input and at what has changed, or "
                "publish all the same with --force"
            )
        self.forced += [verdict.check for verdict in failed]
        return [f"published all the same (--force): {sentence}" for sentence in sentences]
