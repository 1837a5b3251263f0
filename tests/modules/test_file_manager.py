"""The tools of the module `file_manager`, called as the toolbox calls them."""

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from pydantic import ValidationError
from pypdf import PdfReader, PdfWriter

from modules import file_manager
from shared.db.database import Database
from shared.documents.reading import read_text
from shared.errors import NotFound, ToolError
from shared.files.file_types import WORD
from shared.files.stored_file import StoredFile
from shared.messages import Permission
from shared.tools import Tool, ToolContext
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context

TOOLS = [var for var in vars(file_manager).values() if isinstance(var, Tool)]
MEGABYTE = 1024 * 1024
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


@pytest.fixture
async def context(database: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(database, tmp_path / "files", "file_manager")


async def make(context: ToolContext, content: str, kind: str, title: str = "Plan") -> str:
    document = await call(file_manager.create_document, context, title=title, content=content, format=kind)
    _, blob = await context.storage.read(document["file_id"])
    return blob.decode()


async def read_file(context: ToolContext, content: bytes, filename: str = "given") -> str:
    file = await context.storage.create(filename, content)
    return str((await call(file_manager.read_document, context, file_id=file.file_id))["text"])


def test_tools_of_guests_are_few_and_all_schemas_are_small() -> None:
    assert {tool.name for tool in TOOLS} == {
        "file_manager.create_document",
        "file_manager.read_document",
        "file_manager.list_files",
        "file_manager.search_files",
        "file_manager.rename_file",
        "file_manager.get_file_link",
        "file_manager.delete_file",
    }
    for_users = {tool.run.__name__ for tool in TOOLS if tool.requires == Permission.USER}
    assert for_users == {"search_files", "rename_file"}
    assert {tool.requires for tool in TOOLS} == {Permission.GUEST, Permission.USER}
    assert {tool.run.__name__ for tool in TOOLS if tool.read_only} == {
        "read_document",
        "list_files",
        "search_files",
        "get_file_link",
    }
    assert sum(len(json.dumps(tool.schema, separators=(",", ":"))) for tool in TOOLS) < 2000


async def test_a_document_is_created_listed_read_linked_and_deleted(context: ToolContext) -> None:
    document = await call(file_manager.create_document, context, title="Shopping list", content="- milk", format="md")
    assert document.keys() == {"file_id", "filename", "url"}
    assert document["filename"] == "Shopping list.md"

    assert await call(file_manager.list_files, context) == [
        {"file_id": document["file_id"], "filename": "Shopping list.md", "mime_type": "text/markdown", "size_bytes": 24}
    ]
    assert await call(file_manager.read_document, context, file_id=document["file_id"]) == {
        "filename": "Shopping list.md",
        "mime_type": "text/markdown",
        "text": "# Shopping list\n\n- milk\n",
    }
    link = await call(file_manager.get_file_link, context, file_id=document["file_id"])
    assert link["url"].startswith(f"http://here/files/{document['file_id']}?")

    assert await call(file_manager.delete_file, context, file_id=document["file_id"]) == {
        "deleted": True,
        "filename": "Shopping list.md",
    }
    assert await call(file_manager.list_files, context) == []


@pytest.mark.parametrize("tool", ["read_document", "get_file_link", "delete_file"])
async def test_another_users_file_raises_the_same_error_as_a_missing_one(
    context: ToolContext, database: Database, tmp_path: Path, tool: str
) -> None:
    theirs = await context.storage.create("secret.txt", b"secret")
    mine = await make_tool_context(database, tmp_path / "files", "file_manager")

    messages = set()
    for file_id in (theirs.file_id, theirs.file_id + 999, -5, 10**40):
        with pytest.raises(NotFound) as caught:
            await call(getattr(file_manager, tool), mine, file_id=file_id)
        messages.add(str(caught.value))
    assert messages == {"There is no file with that id."}


def test_an_unknown_format_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ValidationError, match="'csv', 'json', 'docx', 'pdf' or 'xlsx'"):
        file_manager.create_document.arguments.model_validate({"title": "a", "content": "b", "format": "exe"})


@pytest.mark.parametrize(
    ("title", "filename"),
    [
        ("notes", "notes.txt"),
        ("notes.txt", "notes.txt"),
        ("../../etc/passwd", "passwd.txt"),
        ("", "document.txt"),
        ("a\nb\x00c", "a bc.txt"),
        ("x" * 500, "x" * 196 + ".txt"),
    ],
)
async def test_the_file_name_is_made_from_the_title(context: ToolContext, title: str, filename: str) -> None:
    document = await call(file_manager.create_document, context, title=title, content="x", format="txt")

    assert document["filename"] == filename


async def test_markdown_without_a_heading_gets_the_title_as_heading(context: ToolContext) -> None:
    assert await make(context, "text", "md") == "# Plan\n\ntext\n"
    assert await make(context, "# Own\ntext", "md") == "# Own\ntext\n"


async def test_html_is_rendered_from_markdown_without_scripts(context: ToolContext) -> None:
    page = await make(
        context,
        "## Head\n\n<script>alert(1)</script> [x](javascript:alert(1)) **bold**\n\n|a|b|\n|-|-|\n|1|2|\n",
        "html",
        title="<b>&Plan",
    )

    assert "<h2>Head</h2>" in page
    assert "<strong>bold</strong>" in page
    assert "<td>1</td>" in page
    assert "<script>" not in page
    assert 'href="javascript' not in page
    assert "default-src 'none'" in page
    assert "<title>&lt;b&gt;&amp;Plan</title>" in page


async def test_a_complete_html_page_is_not_changed(context: ToolContext) -> None:
    page = "<!DOCTYPE html><html><body><p>Hi</p></body></html>"

    assert await make(context, page, "html") == page


async def test_no_cell_of_csv_is_a_formula_and_numbers_stay(context: ToolContext) -> None:
    formulas = ["=1+1", "+cmd", "-cmd", "@SUM(A1)", "\t=1", "\n=1", "  =1", "\uff1d1"]
    others = ["-5", "+3.5", "-1e3", "a=b", "-12%", ""]
    content = "\n".join(f'"{cell}",x' for cell in (*formulas, *others))

    text = await make(context, content, "csv")

    rows = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    assert rows == [*(f"'{cell}" for cell in formulas), *others]
    assert await make(context, "a\n1\r=1", "csv") == "a\n1\n'=1\n"


async def test_csv_is_normalised(context: ToolContext) -> None:
    assert await make(context, 'name,said\r\nAda,"a, ""b"""\r\n\r\n', "csv") == 'name,said\nAda,"a, ""b"""\n'


async def test_json_is_indented(context: ToolContext) -> None:
    assert await make(context, '{"a":[1,"ü"]}', "json") == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}\n'


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("txt", " \n", "empty"),
        ("txt", "x" * 500_001, "500,000"),
        ("csv", "a,b\n1,2,3\n", "row 2 has 3 cells, the first has 2"),
        ("csv", 'a,b\n"1,2\n', "not CSV"),
        ("json", '{"a": 1,}', "line 1, column"),
        ("json", "[NaN]", "NaN"),
        ("json", "[" * 100_000, "deeply|not JSON"),
    ],
)
async def test_invalid_content_is_refused_with_its_position(
    context: ToolContext, kind: str, content: str, reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        await make(context, content, kind)
    assert await call(file_manager.list_files, context) == []


async def test_a_long_document_is_read_in_parts(context: ToolContext) -> None:
    text = "".join(f"{number:07} " for number in range(2000))
    file = await context.storage.create("long.txt", text.encode())
    first = await call(file_manager.read_document, context, file_id=file.file_id)
    assert first["note"] == "16,000 characters in all; read on with offset 6000."

    parts, offset = [first["text"]], 6000
    while offset < len(text):
        part = await call(file_manager.read_document, context, file_id=file.file_id, offset=offset)
        parts.append(part["text"])
        offset += len(part["text"])
    assert "".join(parts) == text
    assert "note" not in part
    assert (await call(file_manager.read_document, context, file_id=file.file_id, offset=10**9))["text"] == ""
    assert (await call(file_manager.read_document, context, file_id=file.file_id, offset=-3))["text"] == first["text"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_text_is_decoded_with_its_encoding(context: ToolContext, encoding: str) -> None:
    assert await read_file(context, "grüß dich, 日本".encode(encoding)) == "grüß dich, 日本"


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "a picture (image/png, 28 bytes)"),
        (b"\x7fELF" + bytes(60), "a binary file (application/x-executable"),
        (bytes(100), "a binary file (application/octet-stream"),
        (b"PK\x03\x04" + bytes(40), "a binary file (application/zip"),
    ],
)
async def test_reading_a_file_without_text_names_its_type(
    context: ToolContext, content: bytes, description: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await read_file(context, content, "thing.txt")

    assert f"thing.txt is {description}" in str(caught.value)
    assert "can be read" in str(caught.value)


async def test_html_is_read_as_its_visible_text(context: ToolContext) -> None:
    page = (
        "<html><head><title>T</title><style>p{}</style></head><body><h1>Head</h1><p>One &amp; <b>two</b></p>"
        "<script>evil()</script><table><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    file = await context.storage.create("page.html", page.encode(), "text/html")

    text = (await call(file_manager.read_document, context, file_id=file.file_id))["text"]
    assert text == "Head\n\nOne & two\n\n| 1 | 2\n"


def make_pdf(*pages: str) -> bytes:
    """Return a PDF with one line of text on each page."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, line in enumerate(pages):
        commands = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET"
        parts.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        parts.append(f"<< /Length {len(commands)} >>\nstream\n{commands}\nendstream")
    out = "%PDF-1.4\n"
    offsets = []
    for number, part in enumerate(parts, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(parts) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return f"{out}xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()


def encrypted(content: bytes, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(content)))
    writer.encrypt(password, "owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_is_read_page_by_page(context: ToolContext) -> None:
    assert await read_file(context, make_pdf("First page", "Second page")) == "First page\n\nSecond page\n\n"


async def test_a_pdf_is_refused_unless_its_password_is_empty(
    context: ToolContext,
) -> None:
    with pytest.raises(ToolError, match="locked with a password"):
        await read_file(context, encrypted(make_pdf("Secret"), "word"))
    assert await read_file(context, encrypted(make_pdf("For all"), "")) == "For all\n\n"


async def test_a_pdf_without_text_is_refused(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no text in it"):
        await read_file(context, make_pdf(""))


def make_docx(document: str, **others: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("_rels/.rels", "<Relationships/>")
        archive.writestr("word/document.xml", document)
        for name, content in others.items():
            archive.writestr(name, content)
    return out.getvalue()


def body(inner: str) -> str:
    return f"<w:document {W}><w:body>{inner}</w:body></w:document>"


async def test_a_word_document_is_read_including_its_tables(context: ToolContext) -> None:
    document = body(
        "<w:p><w:r><w:t>Grüß </w:t></w:r><w:r><w:t>dich</w:t><w:tab/><w:t>!</w:t></w:r></w:p>"
        "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )

    assert await read_file(context, make_docx(document)) == "Grüß dich\t!\n\na | b\n"


async def test_a_decompression_bomb_is_refused(context: ToolContext, subtests: pytest.Subtests) -> None:
    bombs: dict[str, dict[str, bytes]] = {
        "ratio": {"bomb": bytes(20 * MEGABYTE)},
        "size": {"one": bytes(60 * MEGABYTE), "two": bytes(60 * MEGABYTE)},
        "entries": {f"entry{number}": b"x" for number in range(1001)},
    }
    for name, entries in bombs.items():
        with subtests.test(name), pytest.raises(ToolError, match="unpacks to more than is allowed"):
            await read_file(context, make_docx(body("<w:p/>"), **entries))


async def test_a_damaged_document_is_refused_with_one_line(context: ToolContext, subtests: pytest.Subtests) -> None:
    for name, content in {
        "entities": make_docx("<!DOCTYPE a [<!ENTITY b 'bbbb'><!ENTITY c '&b;&b;&b;'>]>" + body("<w:p>&c;</w:p>")),
        "no XML": make_docx("no xml"),
        "a cut archive": make_docx(body("<w:p/>"))[:-40],
        "garbage as PDF": b"%PDF-1.4\n" + bytes(range(256)) * 20,
        "a cut PDF": make_pdf("half")[:200],
        "an empty PDF": b"%PDF-",
    }.items():
        with subtests.test(name):
            with pytest.raises(ToolError, match=r"given\.bin can't be read") as caught:
                await read_file(context, content, "given.bin")

            assert "\n" not in str(caught.value)
            assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("mime_type", "content"), [(WORD, make_docx(body("<w:p/>"))), ("application/pdf", make_pdf("x"))]
)
async def test_parsing_a_document_times_out(context: ToolContext, mime_type: str, content: bytes) -> None:
    with pytest.raises(ToolError, match="takes too long"):
        await read_text(
            context.storage, StoredFile(1, "slow", mime_type, len(content), ""), content=content, seconds=0.001
        )
