"""The documentation: shown outputs are real, nothing is missing, the site is complete, readable and offline."""

import contextlib
import functools
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pages
import pytest
from ray_cluster import cluster_of
from reference import GPT2_BYTES, train_reference

import bpe_pipeline
from bpe_pipeline import compat
from bpe_pipeline.cli import all_commands
from bpe_pipeline.pattern.compiler import compile_pattern

ALL = sorted(path.relative_to(pages.PAGES) for path in pages.PAGES.rglob("*.md"))
README = Path("README.md")
LANGUAGES = {"console", "pycon", "python", "sh", "text"}
QUICK = {"README.md", "quick-start.md"}  # the first day; all other pages are the slow lane's
DOCS = pages.PAGES.parent
HEADINGS = re.compile(r"^#+ (.*)", re.MULTILINE)
CLONE = f"git clone {pages.REPOSITORY} && cd bpe-pipeline"
INSTALLS = [f"{CLONE}\npip install . && bpe-pipeline train", "pip install '.[test]' && pytest"]


def _module(name: str) -> ModuleType:
    """Import one of the scripts of `docs/`."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _content(page: Path) -> str:
    return (pages.README if page == README else pages.PAGES / page).read_text(encoding="utf-8")


def _case(page: Path) -> object:
    marks = [pytest.mark.page] + [pytest.mark.slow] * (page.name not in QUICK)
    marks += [pytest.mark.cluster] * ("ray" in pages.needed(_content(page)))
    return pytest.param(page, id=str(page), marks=marks)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("texts")
    pages.corpus(directory)
    return directory


@pytest.mark.parametrize("page", [_case(page) for page in [README, *ALL] if pages.blocks(_content(page))])
def test_every_command_prints_what_its_page_shows(
    page: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    content, environment = _content(page), {"PATH": pages.search_path()}
    for name in pages.needed(content):
        pytest.importorskip(name)
    if "moto" in pages.needed(content):
        environment |= pages.store_environment(request.getfixturevalue("store_address"))
    shutil.copytree(texts, tmp_path, dirs_exist_ok=True)
    session = pages.Session(tmp_path)
    with cluster_of(2) if "ray" in pages.needed(content) else contextlib.nullcontext() as cluster:
        environment |= {"RAY_ADDRESS": cluster.address} if cluster else {}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for block in pages.blocks(pages.runnable(content)):
            for outcome in session.outcomes(block):
                assert outcome.right, f"{outcome.source}\nshown:\n{outcome.shown}\nprinted:\n{outcome.printed}"


@pytest.mark.parametrize("page", [README, *ALL], ids=str)
def test_a_command_that_is_not_run_has_a_reason_and_parses(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = _content(page)
    blocks = pages.blocks(content)
    fences = re.findall(r"^```", pages.REFERENCE.sub("", content), re.MULTILINE)
    assert 2 * len(blocks) == len(fences)  # none of another form
    for block in blocks:
        assert block.title is not None or block.language in LANGUAGES
        assert block.language != "sh" or block.reason, block.text
        if block.language == "text":
            assert not re.search(r"^(\$|>>>|    bpe-pipeline|bpe-pipeline \w+ -)", block.text, re.MULTILINE)
    assert not re.search(r"^ {4}(\$ )?(bpe-pipeline|python|pip) ", content, re.MULTILINE)  # these would not run
    monkeypatch.chdir(tmp_path)
    for name in ("corpus.txt", "CORPUS", "docs/pages/explanation/costs.md"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert [line for line in pages.not_run(content).splitlines() if not pages.parses(line)] == []


def test_a_wrong_output_and_an_unknown_command_are_found(tmp_path: Path) -> None:
    page = "```console\n$ echo one\none\n$ echo two\nthree\n```\n```pycon\n>>> 1 + 1\n3\n```\n```python\nprint()\n```\n"
    page += "<!-- recorded: of more -->\n```console\n$ echo 'a  1'\na  2\n$ echo 'a  1'\nb  1\n```\n"
    page += "```console\n$ exit 1\n$ sh -c 'echo error: no >&2; exit 1'\nerror: no\n```\n"
    session = pages.Session(tmp_path)
    outcomes = [outcome.right for block in pages.blocks(page) for outcome in session.outcomes(block)]
    assert outcomes == [True, False, False, False, True, False, False, True]
    assert pages.parses("bpe-pipeline train s3://corpus/ --vocab-size 128000  # a comment")
    assert not pages.parses("bpe-pipeline train --vocab 3")
    assert not pages.parses("python -m benchmarks cost --plans 1TB")
    assert pages.not_run("```sh\nls \\\n  -l\n```\n") == "ls    -l\n"


def test_every_command_and_public_name_is_in_the_reference_as_the_objects_themselves_say() -> None:
    named = [name for name in bpe_pipeline.__all__ if name != "__version__" and not name.endswith("Error")]
    wanted = {f"commands/{name}": {f"options of {name}"} for name in all_commands()}
    wanted |= {"command": {"list of options"}, "patterns": {"list of patterns"}, "numbers": {"list of numbers"}}
    for name, marks in wanted.items():
        page = _content(Path(f"reference/{name}.md"))
        assert _module("hooks").with_reference(page) == page, ".ci/generate reference"
        assert sorted(re.findall(r"^<!-- ((?:options|reference|list) of .*) -->$", page, re.MULTILINE)) == sorted(marks)
        assert all(map(pages.parses, re.findall(r"^bpe-pipeline [a-z].*", page, re.MULTILINE)))
    assert {path.stem for path in (pages.PAGES / "reference/commands").iterdir()} == {*all_commands()}
    python = "".join(_content(page) for page in ALL if page.name.startswith("python"))
    for page in (page for page in ALL if page.name.startswith("python")):
        assert _module("hooks").with_reference(_content(page)) == _content(page), ".ci/generate reference"
    all_names = [*named, *(f"compat.{name}" for name in compat.__all__), "exceptions"]
    assert sorted(" ".join(re.findall("<!-- reference of (.*) -->", python)).split()) == sorted(all_names)


def test_the_readme_is_short_and_installs_in_one_line() -> None:
    content = pages.README.read_text(encoding="utf-8")
    assert len(content.splitlines()) <= 200
    assert [block.text.strip() for block in pages.blocks(content) if block.language in ("sh", "text")] == INSTALLS


def test_links_lead_to_files_and_headings() -> None:
    named = (
        "README.md",
        "AGENTS.md",
        "CONTRIBUTING.md",
        "pipeline/README.md",
        "benchmarks/README.md",
        "benchmarks/RESULTS.md",
        "benchmarks/NOTES.md",
        "data/README.md",
    )
    for path in (pages.HOME / name for name in named):
        content = path.read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", content):
            target, _, anchor = link.partition("#")
            linked = path.parent / target if target else path
            assert linked.exists(), f"{path}: {link}"
            titles = re.findall(r"^#+ (.*)", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert not anchor or anchor in anchors, f"{path}: {link}"


def test_paths_that_contributing_names_exist() -> None:
    for name in re.findall(r"`([\w./]+/(?:[\w.]+)?)`", (pages.HOME / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        homes = (
            pages.HOME / home / name
            for home in (".", "pipeline", "pipeline/bpe_pipeline", "pipeline/native", "pipeline/bpe_pipeline/tokenizer")
        )
        assert name.startswith(("counts/0", "published/")) or any(home.exists() for home in homes), name


def test_each_example_is_shown_and_run_by_a_page() -> None:
    shown = {block.title: block.text for page in ALL for block in pages.blocks(_content(page)) if block.title}
    for example in (DOCS / "examples").iterdir():
        assert shown[example.name].strip() == example.read_text("utf-8").strip(), example


def test_every_page_is_two_clicks_from_the_readme() -> None:
    reached = {pages.README}
    for _ in range(2):
        links = [(path, re.findall(r"\]\(([^):#]+\.md)", path.read_text("utf-8"))) for path in reached]
        reached |= {(path.parent / link).resolve() for path, named in links for link in named}
    assert {(pages.PAGES / page).resolve() for page in ALL} <= reached
    assert sum(page.parts[0] == "how-to" for page in ALL) <= 29  # also what people search for: errors, a verdict


@pytest.mark.parametrize(
    ("link", "answer"),
    [
        ("how-to/recipes.md#json-lines-in-s3", "train 's3://bucket/web/*.jsonl.zst'"),
        ("how-to/recipes.md#fineweb-to-shards", "encode s3://bucket/fineweb/"),
        ("how-to/recipes.md#a-language-for-qwen", "extend Qwen3-8B runs/swahili"),
        ("how-to/recipes.md#nanogpt", "--single --shard-format bin"),
        ("how-to/recipes.md#slurm", "--part auto"),
        ("explanation/costs.md#limit-memory", "256 MiB are enough"),
        ("how-to/vocabulary-size.md", "32,000 for one language"),
        ("how-to/recipes.md#gguf-for-llamacpp-and-ollama", "--export gguf"),
    ],
)
def test_the_readme_leads_to_an_answer_within_a_hundred_words(link: str, answer: str) -> None:
    path, _, anchor = link.partition("#")
    assert f"(docs/pages/{link})" in _content(README)
    content = re.sub(r"<!--.*?-->", " ", _content(Path(path)), flags=re.DOTALL)
    titles = {re.sub(r"[^\w -]", "", found[1]).lower().replace(" ", "-"): found for found in HEADINGS.finditer(content)}
    words = content[titles[anchor].end() if anchor else 0 :].split()[:100]
    assert answer in " ".join(words)


def test_figures_in_the_readme_are_measured() -> None:
    readme, index = _content(README), _content(Path("index.md"))
    first, table = readme.split("## Install")[0], readme.partition("<!-- benchmarks summary: begin -->")[2]
    fast = [re.search(r"\*\*Fast and small.*?\n- ", text, re.DOTALL) for text in (readme, index)]
    for figure in re.findall(r"\d[\d.]* (?:s|[MG]B)\b", " ".join([first, *(match[0] for match in fast if match)])):
        assert figure in table, figure


def test_figures_agree_with_the_code() -> None:
    figures = _module("figures")
    gpt2 = compile_pattern("gpt2").automaton
    assert gpt2 is not None
    for text, even, moved, _ in figures.CUTS:
        start = len(text[:even].encode())
        cut = gpt2.find_provable_cut(text.encode(), start, len(text.encode()))
        special = text.find("<|endoftext|>")
        assert moved == (special if special > 0 else len(text.encode()[:cut].decode()))
    drawn = figures.PRE_TOKENS
    token_bytes = [bytes([byte]) for byte in GPT2_BYTES]
    for left, right, _ in train_reference({pre_token.encode(): count for pre_token, count in drawn}, 3):
        token_bytes.append(token_bytes[left] + token_bytes[right])
    tokens = [(tuple(pre_token), count) for pre_token, count in drawn]
    for rank in range(3):
        pair, _ = figures.best_pair(tokens)
        tokens = [(figures.merged(pre_token, pair), count) for pre_token, count in tokens]
        assert "".join(pair).encode() == token_bytes[256 + rank]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; warnings are errors."""
    for name in ("mkdocs", "material"):
        pytest.importorskip(name)
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "-q", "-f", DOCS / "mkdocs.yml"]
    done = subprocess.run([*command, "-d", directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.slow
def test_the_site_is_complete_and_needs_no_network(site: Path) -> None:
    built = sorted(site.rglob("*.html"))
    assert len(built) >= len(ALL)
    elements = r"<(?:script|img|iframe|source)\b[^>]*\bsrc=|<link\b[^>]*\bhref="
    loads = re.compile(rf"(?:{elements})\"?(?:https?:)?//")
    styles = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
    for path in [*built, *site.rglob("*.css")]:
        asked = loads if path.suffix == ".html" else styles
        assert asked.search(path.read_text(encoding="utf-8")) is None, path
    for page in ALL:
        text = (site / page.with_suffix(".html")).read_text(encoding="utf-8")
        assert not re.search("<!-- (options of|reference of|figure|chart|include)", text)
        assert "<p>| " not in text  # every table is parsed
        assert not re.search(r"<blockquote>\s*<blockquote>", text)  # every example is code


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_pages_fit_the_window_and_ask_no_other_host(site: Path, browser: Any, width: int, scheme: str) -> None:
    """No page or table is wider than a laptop or a phone, nor a code block than a laptop; nothing is from a network."""
    wide = "pre => pre.scrollWidth > pre.clientWidth + 1 || pre.parentElement.scrollWidth > pre.clientWidth + 1"
    code = f"[...document.querySelectorAll('pre')].filter({wide}).map(pre => pre.textContent)"
    wide = "box => box.scrollWidth > box.clientWidth && box.innerText"
    tables = f"[...document.querySelectorAll('.md-typeset__scrollwrap')].map({wide}).filter(Boolean)"
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in sorted(site.rglob("*.html"))[:: 4 if scheme == "dark" else 1]:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert width < 1280 or page.evaluate(code) == [], path
        assert page.evaluate(tables) == [], path
    page.close()
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


@pytest.mark.slow
def test_agents_find_the_markdown_of_each_page_in_one_list(site: Path) -> None:
    listed = re.findall(r"^- \[(.+)\]\((.+\.md)\): (\S.*)", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {path for _, path, _ in listed} == {page.as_posix() for page in ALL}
    for title, path, _ in listed:
        twin = (site / path).read_text("utf-8")
        assert f"# {title}\n" in twin
        assert "<!--" not in twin


class Silent(http.server.SimpleHTTPRequestHandler):
    """Serve files without a log."""

    def log_message(self, *_: object) -> None:
        pass


ANSWERS = {
    "eos": "how-to/special-tokens.html",
    "GGUF": "how-to/llama-cpp.html",
    "ollama": "how-to/llama-cpp.html",
    "docker": "install.html",
    "gpu": "install.html",
    "license": "install.html",
    "vllm": "how-to/exporting.html",
    "huggingface": "how-to/coming-from.html",
    "jsonl": "how-to/formats.html",
    "deterministic": "explanation/how-it-works.html",
    "memory limit": "explanation/costs.html",
    "pad vocabulary": "how-to/special-tokens.html",
}


@pytest.mark.slow
def test_the_index_of_search_has_the_answers(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    for query, answer in (ANSWERS | {"Windows": "install.html#what-was-tested-where"}).items():
        sections = [entry for entry in index["docs"] if entry["location"].startswith(answer)]
        text = " ".join(f"{section['title']} {section['text']}" for section in sections).lower()
        words = re.split(index["config"]["separator"], text)  # a search finds words by their beginning
        assert all(any(word.startswith(asked) for word in words) for asked in query.lower().split()), query


@pytest.mark.slow
def test_a_search_shows_the_answer_among_the_first_three_pages(site: Path, browser: Any) -> None:
    pages_found = "[...document.querySelectorAll('.md-search-result__item > a:first-child')].map(link => link.pathname)"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=site)) as server:
        threading.Thread(target=server.serve_forever).start()
        page = browser.new_page()
        found = {}
        for query in ANSWERS:
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html?q={query}")
            page.wait_for_selector(".md-search-result__item", state="attached")
            found[query] = [path.removeprefix("/") for path in page.evaluate(pages_found)[:3]]
        page.close()
        server.shutdown()
    assert {query: paths for query, paths in found.items() if ANSWERS[query] not in paths} == {}
