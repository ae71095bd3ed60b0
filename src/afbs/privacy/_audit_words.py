"""What an audit found, in sentences for whoever has to decide."""

from __future__ import annotations

from afbs.privacy._audit import Audit, Verdict


def sentences(audit: Audit) -> dict[str, str]:
    """One for each mechanism, and one for the side channel."""
    words = {verdict.mechanism: sentence(verdict, audit) for verdict in audit.verdicts}
    words["side channel"] = side_channel(audit)
    return words


def sentence(verdict: Verdict, audit: Audit) -> str:
    worst = verdict.worst
    clusters = f"Its clusters agree with the true ones to {verdict.agreement:.2f} (1 is perfect, 0 is chance)."
    if verdict.mechanism == "projection":
        known = next(finding for finding in verdict.findings if finding.attack == "known projection")
        return (
            "Not confidential: whoever knows the projection, and every client does, reads the main label of "
            f"{_of_100(worst.top)} clients and the exact label counts of {_of_100(worst.exact)} from their sketches "
            f"({_of_100(known.top)} and {_of_100(known.exact)} with the simplest method); a server that colludes with "
            f"no client still learns who is like whom. {clusters}"
        )
    if verdict.mechanism == "dp" and verdict.membership is not None:
        epsilon, delta = verdict.settings["epsilon"], verdict.settings["delta"]
        return (
            f"Protects any one sample (epsilon {epsilon:g}, delta {delta:g}): guessing one sample's label succeeded "
            f"{verdict.membership.measured:.2f} better than chance where {verdict.membership.allowed:.2f} is allowed, "
            f"and the exact label counts of {_of_100(worst.exact)} clients were found. It does not hide what a client "
            f"mostly has: the main label of {_of_100(worst.top)} clients is still found. {clusters}"
        )
    if verdict.mechanism == "secure":
        masked = next(finding for finding in verdict.findings if finding.attack == "one masked vector")
        return (
            "The server sees sums and one cluster id a client. From these it guesses the main label of "
            f"{_of_100(worst.top)} clients, which is what the cluster's average gives and no more; a masked vector by "
            f"itself gives {_of_100(masked.top)}, as blind guessing does. It holds against a server that keeps to the "
            f"protocol. {clusters}"
        )
    if verdict.mechanism == "none":
        return (
            "Nothing about labels is asked, so nothing is given away and there are no clusters; the main label of "
            f"{_of_100(audit.guess.top)} clients can be guessed from all clients' label shares."
        )
    if verdict.mechanism == "plain_for_research":
        return f"The server is told every client's exact label counts. For research on public data only. {clusters}"
    return f"No attack on this mechanism is known here, which is no proof that there is none. {clusters}"


def side_channel(audit: Audit) -> str:
    found = audit.side_channel
    return (
        "Whichever mechanism is chosen: a model update that is sent as it is gives away the main label of "
        f"{_of_100(found.top)} clients (by the bias of its last layer; {found.note}). Closing that takes secure "
        "aggregation of the updates, or differentially private training; AFBS allows both, since it never looks into "
        "an update to select it."
    )


def _of_100(share: float | None) -> str:
    return "an unknown number of" if share is None else f"{100 * share:.0f} of 100"
