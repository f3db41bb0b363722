"""Several clients: the same requests whatever their number, every answer checked, numbers and a figure."""

from __future__ import annotations

import itertools
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests
from figure_samples import texts
from matplotlib.lines import Line2D
from report_samples import meta, plain_layout
from requests.adapters import HTTPAdapter
from samples import file_specification, prepared, values_of
from studies import load, mistake, with_case

from hyperslab import figures, formats
from hyperslab.cases.clients import case as clients_case
from hyperslab.cases.clients.requests import TRIES, Client, asked, dealt
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.opened import Reader
from hyperslab.cases.wire import Answers, of_clients
from hyperslab.data.selections import Box
from hyperslab.figures import FigureData
from hyperslab.figures.clients import served
from hyperslab.figures.sheet import lay_out
from hyperslab.figures.view import look
from hyperslab.measuring import received
from hyperslab.measuring.residency import NodeCache
from hyperslab.measuring.servers import Busy
from hyperslab.report.clients import clients_table
from hyperslab.report.data import Inputs, gather
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy
from hyperslab.specifications import Specification
from hyperslab.studies import figures as figure_kinds

SHAPE, REQUESTS = (6, 12, 40), 9
KINDS = {"map": [1, 12, 40], "series": [6, 1, 1]}
ASKED: dict[str, Any] = {
    "clients": {"map": {"x": 1}, "series": {"y": 1, "z": 1}}, "requests": 10, "processes": [1, 2],
}  # fmt: skip


def cell(clients: int, **repeats: int) -> Specification:
    """What measure is told of clients that share a file of HDF5."""
    case: Any = {
        "name": f"mix-{clients}p", "family": "mix", "kind": "clients", "clients": KINDS, "by": "processes",
        "requests": REQUESTS, "workers": clients, "states": list(repeats),
    }  # fmt: skip
    spec = file_specification(SHAPE, (2, 4, 10))
    return {**spec, "case": case, "repeats": repeats, "study": "s", "seed": 1, "round": "r0", "protocol": 1}


# ---- requests


def test_all_numbers_of_clients_make_the_same_requests() -> None:
    one, three = asked(cell(1, warm=1), "warm", 0), asked(cell(3, warm=1), "warm", 0)
    assert one == three and len(one) == REQUESTS
    assert {box.extent for box in one} == {(1, 12, 40), (6, 1, 1)}
    assert one != asked(cell(1, warm=1), "warm", 1) != asked(cell(1, warm=1), "cold", 1)
    shares = [dealt(one, client, 4) for client in range(4)]
    assert sorted(itertools.chain(*shares)) == list(range(REQUESTS))
    assert {len(share) for share in shares} == {2, 3}


def test_every_answer_is_compared_and_counted(disk: Path) -> None:
    with prepared(disk) as root:
        spec = cell(2, cold=2, warm=1)
        format_ = formats.load("hdf5")
        context = Context(spec, format_, str(root / "data.h5"), values_of(spec), False)
        format_.generate(context.path, spec, context.values)
        outcome = clients_case.run(context)
        assert outcome.skipped == {}
        assert [row["state"] for row in outcome.repeats] == ["warm", "cold", "cold"]
        for row in outcome.repeats:
            assert (row["requests"], row["processes"], row["errors"], row["refused"]) == (REQUESTS, 2, 0, 0)
            assert 0 < row["answer_median_s"] <= row["answer_p95_s"] <= row["answer_max_s"] < row["time_s"]
            assert row["fairness"] >= 1
            boxes = asked(spec, row["state"], row["repeat"])
            assert row["asked_bytes"] == sum(
                2 * box.extent[0] * box.extent[1] * box.extent[2] for box in boxes
            )
        cold = [row for row in outcome.repeats if row["state"] == "cold"]
        assert all(row["resident_before"] < 0.01 and row["requested_bytes"] > 0 for row in cold)
        other = file_specification(SHAPE, (2, 4, 10), dtype="int16")
        with pytest.raises(VerificationError, match=r"request \d of run 0, state warm, differs"):
            clients_case.run(Context(cell(1, warm=1), format_, context.path, values_of(other), False))


def test_each_warm_run_begins_with_what_the_last_one_left(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.9, 0.8])
    with prepared(disk) as root:
        spec = cell(1, warm=2)
        format_ = formats.load("hdf5")
        context = Context(spec, format_, str(root / "data.h5"), values_of(spec), False)
        format_.generate(context.path, spec, context.values)
        monkeypatch.setattr(NodeCache, "filled", lambda _: 1.0)
        monkeypatch.setattr(NodeCache, "resident", lambda _: next(shares))
        rows = clients_case.run(context).repeats
    assert [(row["resident_before"], row["resident_after"]) for row in rows] == [(1.0, 0.9), (0.9, 0.8)]


class Failing:
    """A format whose connections fail so many times."""

    def __init__(self, failures: int, error: OSError) -> None:
        self.failures, self.error, self.opened = failures, error, 0

    def prepare(self, spec: Specification) -> None:
        """There is nothing to load."""

    def open(self, path: str, spec: Specification) -> Failing:
        """A connection."""
        self.opened += 1
        return self

    def read(self, box: Box) -> Any:
        """The truth, or an error."""
        if self.failures:
            self.failures -= 1
            raise self.error
        return values_of(file_specification(SHAPE)).block(box.origin, box.extent)


def test_a_request_that_fails_is_made_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.cases.clients.requests.PAUSE_S", 0)
    for failures, opened in ((2, 3), (3, None)):
        format_ = Failing(failures, OSError("cut"))
        monkeypatch.setattr(formats, "load", lambda _, found=format_: found)
        client = Client(cell(1, warm=1), "nowhere", 0, lambda: None)
        client.command("open")
        go = client.prepare(asked(cell(1, warm=1), "warm", 0))
        if opened is None:
            with pytest.raises(OSError, match="cut"):
                go()
            continue
        go()
        assert (client.result()["errors"], format_.opened) == (failures, opened)


class Alone:
    """A team of one client, in this process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def prepare(self, requests: list[Box]) -> None:
        """Hand out what there is to ask."""
        self.go = self._client.prepare(requests)

    def results(self) -> list[Any]:
        """What the client notes."""
        return [self._client.result()]


def test_a_request_that_a_busy_server_refuses_is_counted_and_the_next_one_made(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab.cases.clients.requests.PAUSE_S", 0)
    with prepared(disk) as root:
        spec = cell(1, warm=1)
        format_ = formats.load("hdf5")
        context = Context(spec, format_, str(root / "data.h5"), values_of(spec), False)
        format_.generate(context.path, spec, context.values)
        boxes = asked(spec, "warm", 0)
        for tries, refused in ((2 * TRIES + 1, 2), (REQUESTS * TRIES, REQUESTS)):
            found = Failing(tries, Busy("too busy"))
            monkeypatch.setattr(formats, "load", lambda _, found=found: found)
            client = Client(spec, context.path, 0, lambda: None)
            repeats = clients_case.Repeats(context, Alone(client))  # type: ignore[arg-type]
            if refused == REQUESTS:
                with pytest.raises(Busy, match="too busy"):
                    repeats.timed(boxes, "warm", 0)
                continue
            row = repeats.timed(boxes, "warm", 0)
            assert (row["requests"], row["errors"], row["refused"]) == (REQUESTS - 2, tries, 2)
            assert row["asked_bytes"] == sum(2 * math.prod(box.extent) for box in boxes[2:])
            # What was answered is compared with the truth, and nothing else.
            repeats.verify()


def test_what_a_client_has_of_a_server_is_counted_apart_from_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    had = iter([0, 10, 17, 20, 120])
    monkeypatch.setattr("hyperslab.measuring.received.so_far", lambda: next(had))
    answers = Answers()
    answers.begin()
    answers.opened()
    answers.begin()
    monkeypatch.setattr("hyperslab.measuring.received._busy", 3)
    found = answers.columns()
    assert found == {"client_bytes": 100, "open_client_bytes": 7, "turned_away": 3}
    other = {"client_bytes": 1, "open_client_bytes": 2, "turned_away": 1}
    both = {"client_bytes": 101, "turned_away": 4}
    assert of_clients([found, other], {"open_s": 1.0}) == {**both, "open_client_bytes": 9}
    assert of_clients([found, other], None) == both
    # Files have no server.
    monkeypatch.setattr("hyperslab.measuring.received.so_far", lambda: None)
    assert of_clients([Answers().columns()] * 2, {"open_s": 1.0}) == {}


def test_looks_at_what_has_come_are_not_in_the_time_of_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("hyperslab.measuring.received.so_far", lambda: next(clock))
    monkeypatch.setattr("hyperslab.cases.opened.perf_counter_ns", lambda: next(clock))
    reader = Reader(cell(1), "", lambda: None)
    # From one look at the clock to the next.
    assert reader.command("open") == 1e-9


def test_requests_that_a_server_turns_away_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    status = iter([503, 200, 503, 500])

    connections = set()

    class Turning(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            connections.add(self.client_address)
            self.send_response(next(status))
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"abc")

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    # What counts is put back at the end.
    monkeypatch.setattr(HTTPAdapter, "build_response", HTTPAdapter.build_response)
    for name, value in {"_counting": False, "_busy": 0, "_done": 0, "_open": []}.items():
        monkeypatch.setattr(received, name, value)
    received.begin()
    with ThreadingHTTPServer(("127.0.0.1", 0), Turning) as server:
        threading.Thread(target=server.serve_forever).start()
        with requests.Session() as session:
            session.trust_env = False
            for _ in range(4):
                # As h5pyd asks, which reads no answer that it does not want.
                found = session.get(f"http://127.0.0.1:{server.server_port}/", stream=True)
                if found.status_code != received.BUSY:
                    assert found.content == b"abc"
        server.shutdown()
    assert (received.turned_away(), received.so_far()) == (2, 12)
    # Who is turned away asks again on the connection that there is.
    assert len(connections) == 1


# ---- what a study may say

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no processes": ({"processes": None}, "a `clients` case needs `processes`"),
    "no requests": ({"requests": None}, "a `clients` case needs `requests`"),
    "few requests": ({"requests": 1}, "requests: 1 are fewer than the 2 clients"),
    "a session": ({"states": ["session"]}, "states: of a `clients` case they are cold and warm"),
    "no axis": ({"clients": {"map": {"w": 1}}}, "no such axis"),
    "strides": (
        {"clients": {"map": {"x": {"extent": 4, "step": 2, "block": 1}}}}, "a request has extents, no strides"
    ),
    "ranks": ({"ranks": [2]}, "ranks: only"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    given, said = MISTAKES[name]
    assert said in mistake(tmp_path, with_case(**{**ASKED, **given}))


def test_each_number_of_clients_is_a_case(tmp_path: Path) -> None:
    study = load(tmp_path, with_case(**ASKED))
    assert {"team-1p", "team-2p"} <= set(study.cases)
    assert study.cases["team-1p"]["title"] == "team, 1 client"
    assert study.cases["team-2p"]["title"] == "team, 2 clients"
    assert study.cases["team-2p"]["clients"] == {"map": [1, 30, 400], "series": [20, 1, 1]}
    assert "clients-team" in figure_kinds.names(figure_kinds.describe(study))
    # A title is the user's own, whatever it says.
    titled = load(tmp_path, with_case(**ASKED, title="what processes ask"))
    assert titled.cases["team-2p"]["title"] == "what processes ask, 2 clients"


# ---- numbers

CLIENTS = {1: 4.0, 2: 2.5, 8: 2.0}
STUDY: dict[str, Any] = {
    "shape": [8, 8, 64], "layouts": ["a", "b"], "grids": [], "score": False, "tradeoff": [],
    "cases": {
        f"mix-{count}p": {
            "kind": "clients", "states": ["cold", "warm"], "shape": [8, 8, 64], "layouts": ["a", "b"],
            "family": "mix", "by": "processes", "workers": count, "title": f"mixed, {count} clients",
        }
        for count in CLIENTS
    },
}  # fmt: skip


def rows() -> pd.DataFrame:
    """Runs of 100 requests in the seconds of CLIENTS; layout b takes twice as long, cold three times."""
    found = []
    for (count, seconds), layout, state, round_ in itertools.product(
        CLIENTS.items(), "ab", ("cold", "warm"), range(3)
    ):
        time_s = seconds * (2 if layout == "b" else 1) * (3 if state == "cold" else 1)
        found.append({
            "study": "s", "site": "disk", "layout": layout, "case": f"mix-{count}p", "kind": "clients",
            "phase": "main", "round": round_, "repeat": 0, "state": state, "processes": count,
            "physical_cores": 2, "time_s": time_s * (1 + 0.01 * round_), "requests": 100,
            "errors": 2 * round_, "refused": round_,
            "answer_median_s": time_s * count / 100, "answer_p95_s": time_s * count / 50,
            "answer_max_s": time_s, "fairness": 1.25, "server_memory_bytes": 3e8 if layout == "b" else None,
            "asked_bytes": 1e6, "noisy": False, "overlap": False, "stale": False,
        })  # fmt: skip
    return tidy(found)


def test_rates_and_latencies_are_those_of_the_runs() -> None:
    table = rows()
    data = FigureData(table, summarise(table), {}, {}, STUDY)
    counts = {count: f"mix-{count}p" for count in CLIENTS}
    found = served(look("disk", data), counts, "a", "warm")
    assert list(found.index) == [1, 2, 8]
    assert found["rate"].round(0).tolist() == [25, 40, 50]
    assert (found["low"] < found["rate"]).all() and (found["rate"] < found["high"]).all()
    assert found["p95"].tolist() == pytest.approx([0.08, 0.10, 0.32])
    figure = figures.draw("clients-mix", "disk", data)
    written = texts(figure)
    assert all(words in written for words in ("requests a second", "clients", "100 requests a run"))


@pytest.mark.parametrize("longer", [0.7, 7.0])
def test_no_label_is_cut_where_ticks_have_more_digits(longer: float) -> None:
    table = rows()
    table[["answer_median_s", "answer_p95_s"]] *= longer
    figure = figures.draw("clients-mix", "disk", FigureData(table, summarise(table), {}, {}, STUDY))
    lay_out(figure)
    named = [axes.yaxis.label for axes in figure.axes if axes.get_ylabel()]
    assert len(named) == 2 and all(label.get_window_extent().x0 >= 0 for label in named)


def test_many_layouts_are_told_apart_by_their_looks() -> None:
    names = [f"l{number:02}" for number in range(12)]
    one = rows().query("layout == 'a' and state == 'warm'")
    table = pd.concat([one.assign(layout=name) for name in names])
    cases = {name: {**case, "layouts": names} for name, case in STUDY["cases"].items()}
    data = FigureData(table, summarise(table), {}, {}, {**STUDY, "layouts": names, "cases": cases})
    figure = figures.draw("clients-mix", "disk", data)
    handles = [one for legend in figure.legends for one in legend.legend_handles if isinstance(one, Line2D)]
    looks = {(one.get_color(), one.get_marker(), one.get_linestyle()) for one in handles}
    assert len(looks) == len(handles) == len(names)


@pytest.mark.parametrize(
    ("throttled_s", "said"), [(0.0, "medians"), (1.0, "medians (means of throttled cold reads and writes)")]
)
def test_the_table_says_what_was_served(throttled_s: float, said: str) -> None:
    table = rows().assign(throttled_s=throttled_s)
    described = meta(
        layouts={name: plain_layout([4, 4, 16]) for name in "ab"},
        cases={name: {**case, "raw_bytes": 1} for name, case in STUDY["cases"].items()},
    )
    page = gather(
        Inputs(
            study=described, measurements=table, summary=summarise(table), context=[], score={},
            recommendation={}, confirmation=None, figures={"disk": []}, expected=[],
        )
    )  # fmt: skip
    found = clients_table(page, "disk", None)
    assert found is not None and len(found.rows) == 12
    first = [str(getattr(one, "text", one)) for one in found.rows[0]]
    assert first[1:5] == ["a", "cold", "1", "100"]
    # Rounds 0, 1 and 2 had as many requests refused, and twice as many errors.
    assert first[-3:-1] == ["6", "3"]
    assert f"geometric mean of the rounds' {said}, with its" in found.note
