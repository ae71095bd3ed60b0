"""How nodes come in: each is asked who it is, late ones are placed by the label mechanism, and strangers stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from afbs.privacy.halves import TwoHalves, one_cluster
from afbs.seeds import Key
from afbs.transports.flower import messages
from afbs.transports.flower.labels import Conversation
from afbs.transports.flower.wire import Failure, Heard, Then
from afbs.types import ClientId, ClientInfo, Grouping, Instant

if TYPE_CHECKING:
    from afbs.transports.flower.fleet import FlowerFleet

_HELLO_SECONDS = 120.0
_LABEL_SECONDS = 120.0


@final
class Entrance:
    """New clients wait until the run has begun, and then for each other: one conversation about labels at a time."""

    def __init__(self, fleet: FlowerFleet):
        self._fleet = fleet
        self.opened = False
        self.asking: set[int] = set()
        """Nodes that were asked who they are."""
        self.waiting: dict[ClientId, messages.Here] = {}
        self.refused: dict[int, str] = {}
        self.held: dict[ClientId, list[int]] = {}
        """What each client's node said that it keeps, when it was last asked."""
        self.settled: frozenset[int] = frozenset()
        self._talking: dict[ClientId, messages.Here] = {}

    @property
    def idle(self) -> bool:
        return not self._talking and not (self.opened and self.waiting)

    def greet(self, node: int) -> None:
        brief, fleet = self._fleet.brief, self._fleet
        self.asking.add(node)
        question = messages.Hello(fleet.roster.experiment, brief.task, brief.classes)
        # A node that is at work answers when it is done, so it is given as long as work is.
        within = max(_HELLO_SECONDS, fleet.settings.patience) if self.opened else _HELLO_SECONDS
        fleet.wire.ask(
            node,
            messages.HELLO,
            messages.hello(question),
            within,
            lambda answer: self._introduced(node, answer),
            lambda answer: self._introduced(node, answer),
        )

    def ask_again(self, client: ClientId) -> None:
        node = self._fleet.roster.node_of.get(client)
        if node is not None and node not in self.asking:
            self.greet(node)

    def left(self, node: int) -> None:
        client = self._fleet.roster.client_of.get(node)
        if client is not None:
            self._fleet.note("its node has left", client=client)
            self.held.pop(client, None)
            if client in self.waiting and not self.opened:
                del self.waiting[client]

    def _introduced(self, node: int, answer: Heard) -> None:
        fleet, roster = self._fleet, self._fleet.roster
        self.asking.discard(node)
        if isinstance(answer, Failure):
            self._refuse(node, answer.why)
            if answer.silent or answer.gone:
                fleet.attendance.missed(node)
            return
        try:
            here = messages.here_of(answer)
            why = roster.complaint(here, fleet.brief.task)
        except messages.BadMessageError as error:
            why = f"a bad answer: {error}"
        if why:
            self._refuse(node, why)
            return
        self.refused.pop(node, None)
        roster.seat(node, here.client)
        fleet.attendance.heard(here.client)
        self.held[here.client] = here.held
        known = roster.members.get(here.client)
        if known is None:
            self.waiting[here.client] = here
            return
        if known.info.examples != here.examples:
            what = f"it has {here.examples} samples now; it counts with the {known.info.examples} it registered"
            fleet.note(what, client=here.client)
        done = self.settled.intersection(here.held)
        if done:
            fleet.orders.let_go(here.client, done)
        fleet.orders.resolve(here.client, here.held)

    def _refuse(self, node: int, why: str) -> None:
        if self.refused.get(node) != why:
            self.refused[node] = why
            self._fleet.note(f"node {node} cannot take part: {why}")

    # labels

    def turn(self) -> None:
        if self.opened and self.waiting and not self._talking:
            self.open(found=False)

    def open(self, found: bool) -> None:
        """Let everybody in who waits: with `found` they found the clusters, else they go to those there are."""
        brief, roster = self._fleet.brief, self._fleet.roster
        self.opened = True
        self._talking, self.waiting = self.waiting, {}
        examples = {client: here.examples for client, here in sorted(self._talking.items())}
        mechanism = brief.mechanism
        if not isinstance(mechanism, TwoHalves) or mechanism.number == 1:
            grouping = None
            if mechanism is not None:
                everybody = {**dict.fromkeys(roster.members), **dict.fromkeys(examples)}
                name = mechanism.name if isinstance(mechanism, TwoHalves) else "none"
                grouping = one_cluster(everybody, name)  # type: ignore[arg-type]
            self._place(grouping)
            return
        if found or roster.grouping is None:
            talk = mechanism.found(examples, brief.classes, Key.root(brief.seed, "clusters").child(2), brief.most)
        else:
            talk = mechanism.admit(roster.grouping, examples, brief.classes)
        Conversation(talk, self._ask_label, self._place)

    def _ask_label(self, client: ClientId, question: bytes, then: Then) -> None:
        fleet = self._fleet
        content = messages.label(fleet.roster.experiment, fleet.brief.classes, question)
        fleet.wire.ask(fleet.roster.node_of.get(client, 0), messages.LABEL, content, _LABEL_SECONDS, then)

    def _place(self, grouping: Grouping | None) -> None:
        fleet, roster = self._fleet, self._fleet.roster
        cluster_of = grouping.cluster_of if grouping is not None else {}
        refused = grouping.notes.get("refused", {}) if grouping is not None else {}
        for client, here in sorted(self._talking.items()):
            info = ClientInfo(client, here.examples, cluster_of.get(client, 0))
            roster.admit(client, here.token, info)
            if client in refused:
                fleet.note(f"nothing is known of its labels: {refused[client]}", client=client)
            fleet.news.append(Instant(0.0, joined=[info]))
        roster.grouping = grouping
        self._talking = {}
        roster.save()
