"""What an audit found, in sentences for whoever has to decide."""

from __future__ import annotations

from afbs.audit.verdicts import Audit
from afbs.privacy.exposure import of_100


def sentences(audit: Audit) -> dict[str, str]:
    """One for each mechanism, and one for the side channel."""
    return {verdict.mechanism: verdict.sentence for verdict in audit.verdicts} | {"side channel": side_channel(audit)}


def side_channel(audit: Audit) -> str:
    found = audit.side_channel
    return (
        "Whichever mechanism is chosen: a model update that is sent as it is gives away the main label of "
        f"{of_100(found.top)} clients (by the bias of its last layer; {found.note}). Closing that takes secure "
        "aggregation of the updates, or differentially private training; AFBS allows both, since it never looks into "
        "an update to select it."
    )
