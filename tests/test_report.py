"""The report: what is counted, what is compared, what is shown and what cannot be read."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import ANSWER, TOKENIZER, episode, write_run

from leap_jax.report import browser, counts, curves, tables
from leap_jax.report.__main__ import main
from leap_jax.report.page import page
from leap_jax.report.rollouts import Difficulty, GroupCounts, Sample, groups, rank
from leap_jax.report.runs import differing_keys, methods, name_without_seed, read_run, short_names

UNPRUNED = {"gate.mode": "always"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two methods, the first of two seeds; the other prunes nothing."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / "leap" / f"seed_{seed}", settings={"seed": seed})
    write_run(
        folder / "unpruned-0",
        settings=UNPRUNED,
        groups=lambda step: [["c", "iic", "iii", "c"], ["iii", "iii", "ic", "iii"], ["c", "c", "c", "c"]],
        heldout=lambda step: [["c", "ic"], ["iic", "iii"], ["c", "eei"]],
    )
    return folder


def read(*paths):
    return methods([read_run(path, keep_rollouts=1000) for path in paths])


@pytest.fixture(scope="module")
def found(runs):
    return read(runs / "leap" / "seed_0", runs / "leap" / "seed_1", runs / "unpruned-0")


def reported(capsys, *arguments) -> tuple[int, str, list[str]]:
    status = main([str(a) for a in arguments])
    output = capsys.readouterr()
    return status, output.out, output.err.splitlines()


# What is counted.


def test_rollouts_are_counted_by_the_difficulty_of_their_group(found):
    leap, unpruned = (method.runs[0].tally for method in found)
    assert leap.difficulties == {
        Difficulty(4, 2): GroupCounts(groups=2, opened=2, rescued=2, went_on=4, recovered=2, extra_turns=6),
        Difficulty(4, 4): GroupCounts(groups=2),
    }
    assert unpruned.difficulties == {
        Difficulty(4, 2): GroupCounts(groups=2, opened=2, rescued=2, went_on=4, recovered=2, extra_turns=8),
        Difficulty(4, 4): GroupCounts(groups=2, opened=2, rescued=2, went_on=8, recovered=2, extra_turns=14),
        Difficulty(4, 0): GroupCounts(groups=2),
    }
    assert leap.passed_at == {(s, t): n for s in (1, 2) for t, n in ((1, 2), (3, 1), (4, 5))}
    assert leap.advantages[1, 1] == {0.667: 4}
    assert leap.advantages[3, 2] == leap.advantages[3, 3] == {-0.333: 2}


def test_a_rollout_that_could_not_be_judged_leaves_its_group(tmp_path):
    run = write_run(tmp_path / "run", groups=lambda step: [["u", "iu", "ic", "c"]])
    (method,) = read(run)
    assert list(method.runs[0].tally.difficulties) == [Difficulty(2, 1)]
    rollouts = browser.browser_data([method])["groups"][0]["rollouts"]
    assert [rollout["pass"] for rollout in rollouts] == [0, 0, 2, 1]


def test_recovery_is_drawn_where_rollouts_went_on(found):
    (_, by_rollout), (_, by_group) = counts.recovery(found).views
    leap, unpruned = by_rollout["data"]
    assert (leap["x"], leap["y"], leap["text"]) == ([2], [0.5], ["of 8 rollouts"])  # the two seeds together
    assert (unpruned["x"], unpruned["y"]) == ([2, 4], [0.5, 0.25])
    assert by_group["data"][1]["y"] == [1.0, 1.0]


def test_turns_to_pass_are_shares_of_a_step(found):
    bars = {bar["name"]: bar["y"] for bar in counts.turns_to_pass(found).views[0][1]["data"]}
    assert bars == {"turn 1": [0.25] * 2, "turn 2": [0.0] * 2, "turn 3": [0.125] * 2, "fail": [0.625] * 2}


def test_cost_is_stacked_to_the_whole_step(found):
    bars = counts.cost(found).views[0][1]["data"]
    assert {bar["name"]: bar["x"] for bar in bars} == {
        **{"generate": [2.0, 2.0], "verify": [1.0, 1.0], "update": [1.0, 1.0], "other": [0.5, 0.5]}
    }


# What is compared.


def test_curves_have_a_band_over_seeds_and_every_axis(runs, tmp_path):
    other = write_run(tmp_path / "leap-2", settings={"seed": 2}, heldout=lambda step: [["c", "c"], ["c", "i"]])
    (method,) = read(runs / "leap" / "seed_0", other)
    band, *dots, line = curves.curves([method], "eval/heldout/acc@1")["data"]
    assert line["y"] == [0.625, 0.625]  # 3 of 6 and 3 of 4
    assert band["y"] == [0.5, 0.5, 0.75, 0.75] and band["x"] == [0, 2, 2, 0]
    assert [dot["y"] for dot in dots] == [[0.5, 0.5], [0.75, 0.75]]
    views = dict(curves.headline([method], 1).views)
    assert views["verifications"]["data"][-1]["x"] == [0.0, 22.0]
    assert views["train seconds"]["data"][-1]["x"] == [0.0, 0.15]  # minutes


def test_long_curves_are_averaged_in_equal_parts():
    curve = curves.Curve(np.arange(100.0), np.arange(100.0) ** 2)
    short = curves.shortened(curve)
    assert len(short.x) == 34 and short.x[0] == 1.0 and short.y[0] == pytest.approx(5 / 3)
    assert curves.shortened(curves.Curve(curve.x[:40], curve.y[:40])).y.tolist() == curve.y[:40].tolist()


def test_results_pool_the_seeds_and_say_what_was_spent(found):
    table = tables.results(found)
    leap, unpruned = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert leap["runs"] == "2" and leap["verifications"] == "22" and leap["steps"] == "2"
    assert re.fullmatch(r"50\.0 % \[\d+\.\d, \d+\.\d\]", leap["Acc@1"])
    assert leap["minutes"] == "0.1" and leap["Acc@1 at step 0"] == "50.0 %"
    assert unpruned["Acc@3"].startswith("66.7 %") and unpruned["recovery"].startswith("50.0 %")


def test_differences_are_paired_by_task(found):
    table = tables.differences(found)
    (row,) = table.rows
    assert row[:2] == ["leap − unpruned", "3"]
    cells = dict(zip(table.columns, row, strict=True))
    # Acc@1 by task: 1/2, 0, 1 against 1/2, 0, 1/2.
    assert cells["Acc@1, points"].startswith("+16.7 [") and row[3] == "1.000"
    assert tables.differences(found[:1]).rows == []


def test_the_confusion_of_a_gate_is_known_from_an_unpruned_run(found):
    leap, unpruned = tables.confusion(found).rows
    assert leap == ["leap", "4", "0", "4 not tried", "–", "–"]
    # Window 2 to 3 of 4: it opens the groups with two failures and closes those with four, which recovered too.
    assert unpruned == ["unpruned, if gated by 2 ≤ N_fail ≤ 3", "2", "0", "2", "0", "63.6 %"]


def test_recovery_by_error_counts_first_turns(found):
    table = tables.error_classes(found)
    assert table.columns == ["method", "compile_error", "incorrect"]
    assert table.rows[1] == ["unpruned", "0.0 % of 1", "66.7 % of 3"]


@pytest.mark.parametrize(
    ("path", "name"),
    [("runs/leap-0", "leap"), ("runs/leap/seed_2", "leap"), ("runs/leap_seed1", "leap"), ("runs/leap_t3", "leap_t3")],
)
def test_the_name_of_a_method_is_its_folder_without_the_seed(tmp_path, path, name):
    assert name_without_seed(tmp_path / path) == name


def test_a_run_is_called_by_what_tells_it_apart(runs):
    paths = [runs / "leap/seed_0", runs / "leap/seed_1", runs / "unpruned-0"]
    assert short_names(paths) == ["leap/seed_0", "leap/seed_1", "unpruned-0"]
    assert short_names(paths[:2]) == ["seed_0", "seed_1"] and short_names(paths[2:]) == ["unpruned-0"]


def test_runs_with_other_configs_are_other_methods(tmp_path, runs):
    other = write_run(tmp_path / "leap-3", settings={"seed": 3, "credit.gamma": 0.9})
    found = read(runs / "leap" / "seed_0", runs / "leap" / "seed_1", other)
    assert [(m.name, len(m.runs)) for m in found] == [("leap (credit.gamma=0.5)", 2), ("leap (credit.gamma=0.9)", 1)]
    assert differing_keys([m.config for m in found]) == ["credit.gamma"]
    assert tables.configs(found).rows == [["credit.gamma", "0.5", "0.9"]]


# What is shown.


def test_the_sample_is_the_lowest_ranks_and_the_same_prompts_in_every_run(runs):
    def sampled(path, size):
        sample = Sample(size)
        for group in groups(path):
            sample.offer(group)
        return [(g[0][0]["step"], g[0][0]["prompt"]) for g in sample.groups()], sample.offered

    first, second = runs / "leap/seed_0/rollouts.jsonl", runs / "unpruned-0/rollouts.jsonl"
    everything, offered = sampled(first, 100)
    assert offered == 4 and everything == [(1, 0), (1, 1), (2, 0), (2, 1)]
    lowest = sorted(everything, key=lambda place: rank({"step": place[0], "prompt": place[1]}))
    for size in (1, 2, 3):
        assert sampled(first, size) == (sorted(lowest[:size]), 4)
    assert set(sampled(first, 1)[0]) <= set(sampled(second, 3)[0])


def test_groups_are_read_one_at_a_time(runs, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes((runs / "leap/seed_0/rollouts.jsonl").read_bytes() + b"damage\n")
    stream = groups(path)
    assert [len(turns) for turns in next(stream)] == [1, 3, 2, 1]  # though the end of the file is damaged


def test_a_bounded_page_says_what_it_leaves_out(runs, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert reported(capsys, runs / "leap", f"--out={out}", "--rollouts=8")[0] == 0
    # Of each run one of 4 groups of training and one of 3 of the evaluation.
    assert "4 groups of training and of the last evaluations. 10 more are left out" in Text.of(out.read_text())
    assert len(data_of(out.read_text())["rollouts"]["groups"]) == 4


def test_a_turn_shows_its_tokens_and_what_changed(found):
    view = browser.browser_data(found)["groups"][0]["rollouts"][1]
    first, second, third = view["turns"]
    assert (view["pass"], view["reward"], third["advantage"]) == (3, -0.3333, -0.3333)
    assert sum(first["lengths"]) == len(first["text"]) and first["text"] == ANSWER % "0.0f"
    assert first["logprobs"][0] == 0.0 and first["logprobs"][-1] == -3.0
    assert len(first["logprobs"]) == len(first["lengths"]) == first["tokens"]
    assert "diff" not in first and second["diff"] == [[4, 5, 4, 5]]
    assert second["feedback"] == "line 4: wrong" and "feedback" not in third


def test_a_record_without_probabilities_is_shown_without(runs, tmp_path):
    path = tmp_path / "run" / "rollouts.jsonl"
    write_run(path.parent)
    turns = [json.loads(line) for line in path.read_text().splitlines()]
    for turn in turns:
        del turn["logprobs"], turn["token_lengths"]
    turns[0] |= {"logprobs": [1.0], "token_lengths": [-1]}
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    shown = browser.browser_data(read(path.parent))["groups"]
    trained = [turn for g in shown if g["kind"] == "train" for r in g["rollouts"] for turn in r["turns"]]
    assert trained and not any("logprobs" in turn for turn in trained)


CODE = st.lists(st.sampled_from([*"\"'\\/*{}();#\n\r\t <€🙂", "int ", "//", "```", "if", "0x1p", "#define x"])).map(
    "".join
)


@settings(max_examples=100, deadline=None)
@given(st.text() | CODE)
def test_styles_and_tokens_cover_any_text(text):
    text = browser.visible(text)
    found = browser.styles(text)
    assert sum(found[1::2]) == browser.utf16(text) == len(text.encode("utf-16-le")) // 2
    ids = TOKENIZER.encode_answer(text)
    record = {"token_lengths": TOKENIZER.token_lengths(ids), "logprobs": [-1.0] * len(ids)}
    lengths, _ = browser.tokens(record, text)
    assert sum(lengths) == browser.utf16(text)


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "<!--<script>" + "\x00\x1b[2J\x9b31m\u202e\u2028\r" + "\ufffd" + "{{ 7 * 7 }}",
    "x" * 1_000_000,
    "a " * 4000 + "(",
    "int a\n" * 4000,
    "",
)


class Text(HTMLParser):
    """The text of a page outside its scripts and styles, and the tags that it has."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        if self.tags[-1][0] not in ("script", "style") if self.tags else True:
            self.texts.append(text)

    @classmethod
    def of(cls, html):
        parser = cls()
        parser.feed(html)
        return " ".join(parser.texts)


def data_of(html):
    """The JSON on a page."""
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(block[1])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run whose policy writes all of HOSTILE, in a folder that is hostile too."""

    def write(task, outcomes):
        texts = HOSTILE[3 * outcomes.endswith("c") :]
        return episode(task + "<script>", outcomes, texts=texts, feedback=HOSTILE[0] + HOSTILE[1])

    folder = tmp_path_factory.mktemp("runs") / "<b onclick=alert(1)>\u202eleap-0"
    return write_run(
        folder,
        groups=lambda step: [["iii", "iic", "ic", "c"]],
        heldout=lambda step: [["ic", "c"]],
        settings={"reward": HOSTILE[0]},
        episodes=write,
    )


def test_hostile_text_is_text(hostile):
    html = page(read(hostile), [str(hostile) + HOSTILE[0]])
    parser = Text()
    parser.feed(html)
    scripts = [attributes for tag, attributes in parser.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}, {}]
    assert not {"img", "b"} & {tag for tag, _ in parser.tags}
    assert not any(name.startswith("on") for _, attributes in parser.tags for name in attributes)
    texts = {turn["text"] for g in data_of(html)["rollouts"]["groups"] for r in g["rollouts"] for turn in r["turns"]}
    assert HOSTILE[0] in texts and "x" * 8000 in texts
    assert not set("\x00\x1b\x9b\u202e\r") & set("".join(texts))
    assert len(html) < 6_000_000  # plotly alone is 4.8 million


def test_only_its_own_scripts_may_run_and_nothing_is_loaded(found):
    html = page(found, [])
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    assert re.fullmatch(
        r"default-src 'none'; script-src ('sha256-[\w+/=]+' ?){2}; style-src 'unsafe-inline'; img-src data: blob:",
        policy,
    )


def test_the_same_runs_give_the_same_page(runs, found):
    again = read(runs / "leap" / "seed_0", runs / "leap" / "seed_1", runs / "unpruned-0")
    assert page(found, []) == page(again, [])


# What cannot be read.


def test_folders_of_runs_are_searched(runs, tmp_path, capsys):
    out = tmp_path / "deep" / "page.html"
    status, said, problems = reported(capsys, runs, runs / "leap/seed_0", f"--out={out}")
    assert (status, problems) == (0, [])
    assert re.fullmatch(rf"{out}: runs 3, methods 2, \d\.\d MB\n", said)


def test_damage_is_named_and_the_others_are_reported(runs, tmp_path, capsys):
    damaged, unevaluated, unstarted = (tmp_path / name for name in ("damaged-0", "unevaluated-0", "unstarted-0"))
    write_run(damaged)
    with (damaged / "metrics.jsonl").open("a") as file:
        file.write("{]\n")
    lines = (damaged / "rollouts.jsonl").read_text().splitlines(keepends=True)
    lines[-1] = lines[-1].replace('"outcome": "', '"outcome": "un')
    (damaged / "rollouts.jsonl").write_text("".join(lines))
    (damaged / "eval/step_000002.jsonl").write_text('{"step": 2}\n')
    write_run(unevaluated)
    (unevaluated / "rollouts.jsonl").unlink()
    for path in (unevaluated / "eval").iterdir():
        path.unlink()
    unstarted.mkdir()
    (unstarted / "config.json").write_text("{}")
    out = tmp_path / "page.html"
    arguments = (runs / "unpruned-0", damaged, unevaluated, unstarted, tmp_path / "absent", f"--out={out}")
    status, said, problems = reported(capsys, *arguments)
    assert status == 0 and "runs 3, methods 3" in said
    assert problems == [
        f"leap_jax.report: {line}"
        for line in (
            f"{tmp_path}/absent: no such folder",
            f"{unstarted}/config.json: no number seed",
            f"{damaged}/metrics.jsonl, line 4: not a JSON object with a step",
            f"{damaged}/rollouts.jsonl, line {len(lines)}: unknown outcome 'unincorrect'",
            f"{damaged}/eval/step_000002.jsonl, line 1: not the record of a turn, its 'prompt' is no int",
            f"{unevaluated}/rollouts.jsonl: No such file or directory",
        )
    ]
    shown = Text.of(out.read_text())
    assert all(problem.removeprefix("leap_jax.report: ") in shown for problem in problems)
    (method,) = read(damaged)
    assert method.runs[0].evaluation.step == 0  # the one before the damaged one
    assert [r["step"] for r in method.runs[0].records] == [0, 1, 2]


def test_a_run_that_has_not_begun_is_reported_empty(tmp_path, capsys):
    run = write_run(tmp_path / "leap-0")
    (run / "metrics.jsonl").write_text("")
    (run / "rollouts.jsonl").unlink()
    (run / "eval/step_000000.jsonl").unlink()
    (run / "eval/step_000002.jsonl").unlink()
    out = tmp_path / "page.html"
    assert reported(capsys, run, f"--out={out}")[0] == 0
    assert "No rollouts were recorded yet." in out.read_text()


def test_nothing_to_report_is_an_error_of_one_line(tmp_path, capsys):
    status, said, problems = reported(capsys, tmp_path / "absent", f"--out={tmp_path / 'page.html'}")
    assert (status, said) == (1, "") and not (tmp_path / "page.html").exists()
    assert problems[-1] == "leap_jax.report: no run to report"


def test_a_page_that_cannot_be_written_is_an_error_of_one_line(runs, tmp_path, capsys):
    status, _, problems = reported(capsys, runs / "unpruned-0", f"--out={tmp_path}")
    assert (status, problems) == (1, [f"leap_jax.report: cannot write {tmp_path}: Is a directory"])
