"""Files that are made as Word, PDF and Excel, found, renamed, and read in parts."""

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from modules import file_manager
from shared.db.database import Database
from shared.documents.reading import read_text
from shared.errors import NotFound, ToolError
from shared.files.stored_file import StoredFile
from shared.tools import ToolContext
from tests.support.loopback import reply, serving
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context


@pytest.fixture
async def context(database: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(database, tmp_path / "files", "file_manager")


TABLE = "name,amount\ntea,3.5\n=1+1,007\n"
LETTER = "# Offer\n\nDear **Ada**, the *bridge* costs 5 € ([plan](https://town.example/plan)).\n\n- steel\n- wood\n"


async def make_file(context: ToolContext, content: str, kind: str) -> tuple[int, bytes]:
    document = await call(file_manager.create_document, context, title="Offer", content=content, format=kind)
    file, blob = await context.storage.read(document["file_id"])
    assert file.filename == f"Offer.{kind}"
    assert file.mime_type == file_manager.MIME_TYPES[kind]
    return document["file_id"], blob


@pytest.mark.parametrize("kind", ["docx", "pdf"])
async def test_a_word_file_and_a_pdf_are_made_from_markdown(context: ToolContext, kind: str) -> None:
    file_id, _ = await make_file(context, LETTER, kind)

    text = (await call(file_manager.read_document, context, file_id=file_id))["text"]
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert lines[:2] == ["Offer", "Dear Ada, the bridge costs 5 € (plan)."]
    assert [line.lstrip("• ") for line in lines[2:]] == ["steel", "wood"]


async def test_a_workbook_is_made_from_csv_with_numbers_and_without_formulas(context: ToolContext) -> None:
    file_id, blob = await make_file(context, TABLE, "xlsx")

    sheet = load_workbook(io.BytesIO(blob)).worksheets[0]
    assert [[cell.value for cell in row] for row in sheet.iter_rows()] == [
        ["name", "amount"],
        ["tea", 3.5],
        ["=1+1", "007"],
    ]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} == {"s", "n"}
    assert [cell.quotePrefix for row in sheet.iter_rows() for cell in row] == [False] * 4 + [True, False]
    document = await call(file_manager.read_document, context, file_id=file_id)
    assert document["text"] == f"# Offer\n{TABLE}\n"


async def test_pictures_in_markdown_are_not_fetched(context: ToolContext) -> None:
    async with serving(reply(b"secret")) as server:
        for kind in ("docx", "pdf"):
            await make_file(context, f"![picture]({server.origin}/x.png)", kind)
        assert server.requests == []


async def test_a_pdf_with_letters_that_its_font_lacks_is_refused_with_the_letters(context: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"no letters for '日本'; leave them out, or write docx or html"):
        await make_file(context, "Tea in Japan is 日本 tea.", "pdf")
    await make_file(context, "Чай, τσάι, čaj: 5 €", "pdf")


async def test_a_long_table_is_read_in_whole_rows_with_its_header(context: ToolContext) -> None:
    rows = "".join(f"{number},{'x' * 50}\n" for number in range(1000))
    document = await call(file_manager.create_document, context, title="t", content=f"n,text\n{rows}", format="csv")

    first = await call(file_manager.read_document, context, file_id=document["file_id"])
    offset = int(first["note"].rpartition(" ")[2].rstrip("."))
    second = await call(file_manager.read_document, context, file_id=document["file_id"], offset=offset)

    assert first["text"].endswith("x\n")
    assert "header" not in first
    assert (second["header"], second["text"][:3]) == ("n,text", f"{first['text'].count(chr(10)) - 1},x"[:3])


async def test_files_are_found_by_name_and_by_text(context: ToolContext) -> None:
    await make_file(context, LETTER, "pdf")
    await context.storage.create("bridge.png", b"\x89PNG\r\n\x1a\n" + bytes(20))
    await context.storage.create("notes.txt", b"Call the mayor about the BRIDGE in May.")
    await context.storage.create("other.txt", b"Nothing of it.")

    answer = await call(file_manager.search_files, context, query="Bridge")

    assert [file["filename"] for file in answer["files"]] == ["bridge.png", "notes.txt", "Offer.pdf"]
    assert answer["files"][1]["text"] == "Call the mayor about the BRIDGE in May."
    assert await call(file_manager.search_files, context, query="zeppelin") == {"files": []}
    with pytest.raises(ToolError, match="query is empty"):
        await call(file_manager.search_files, context, query=" ")


async def test_a_search_says_what_it_did_not_read(context: ToolContext) -> None:
    for number in range(32):
        await context.storage.create(f"{number}.txt", b"hello")

    answer = await call(file_manager.search_files, context, query="bridge")

    assert answer == {"files": [], "note": "The text of 2 more files was not searched."}
    assert len(await call(file_manager.list_files, context, skip=30)) == 2


@pytest.mark.parametrize(
    ("name", "filename"), [("Plan B.md", "Plan B.md"), ("Plan B", "Plan B.txt"), ("../x/y", "y.txt")]
)
async def test_a_file_is_renamed_and_keeps_its_extension(context: ToolContext, name: str, filename: str) -> None:
    file = await context.storage.create("plan.txt", b"hello")

    assert await call(file_manager.rename_file, context, file_id=file.file_id, filename=name) == {
        "file_id": file.file_id,
        "filename": filename,
    }
    assert (await call(file_manager.list_files, context))[0]["filename"] == filename


async def test_a_file_of_another_person_is_not_renamed(
    context: ToolContext, database: Database, tmp_path: Path
) -> None:
    file = await context.storage.create("plan.txt", b"hello")
    other = await make_tool_context(database, tmp_path / "files", "file_manager")

    with pytest.raises(NotFound):
        await call(file_manager.rename_file, other, file_id=file.file_id, filename="mine.txt")
    with pytest.raises(ToolError, match="filename is empty"):
        await call(file_manager.rename_file, context, file_id=file.file_id, filename=" ")
    assert await call(file_manager.search_files, other, query="plan") == {"files": []}


class Watched(bytes):
    """A content that notes by which threads it is decoded."""

    decoders: set[int]

    def decode(self, *arguments: Any, **options: Any) -> str:
        self.decoders.add(threading.get_ident())
        return super().decode(*arguments, **options)


async def test_a_plain_text_is_not_decoded_by_the_thread_of_the_event_loop(context: ToolContext) -> None:
    content = Watched(b"Water the plants.")
    content.decoders = set()
    file = StoredFile(1, "notes.txt", "text/plain", len(content), "")

    assert await read_text(context.storage, file, content) == "Water the plants."
    assert content.decoders
    assert threading.get_ident() not in content.decoders


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Ort;Betrag\nKöln;12,50 €\nGroßstadt: „Süd“;7\n", "cp1252"),
        ("año,ciudad\n2020,Málaga\n2021,A Coruña\n", "cp1252"),
        ("é,1\n", "cp1252"),
        ("Город;Сумма\nПетербург;12\nСмоленск;7\n", "cp1251"),  # noqa: RUF001
        ("Zażółć gęślą jaźń, potem idź do domu i zrób herbatę dla gości, którzy przyszli.\n", "cp1250"),
        ("名前,都市\n田中,東京\n", "cp932"),
    ],
)
async def test_text_in_an_older_encoding_is_read(context: ToolContext, text: str, encoding: str) -> None:
    file = await context.storage.create("orte.csv", text.encode(encoding), "text/csv")

    assert file.mime_type == "text/csv"
    assert (await call(file_manager.read_document, context, file_id=file.file_id))["text"].strip() == text.strip()
