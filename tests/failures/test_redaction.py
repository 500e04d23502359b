"""Secrets never survive redact(), ordinary text does, and hostile text costs nothing."""

import base64
import string
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from redrive.determinism.ids import ordered_id, random_token
from redrive.failures import hide_secrets, redaction
from redrive.failures.added_secrets import ADDED
from redrive.failures.redaction import ELLIPSIS, redact
from redrive.failures.secret_names import names_a_secret
from redrive.policies import Policy
from redrive.runners.attempt import Attempt
from redrive.runners.http.request import completion_token

SECRET = "hunter2XYZZY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"

LEAKS = [
    # URLs
    "postgresql://bob:{}@db.internal:5432/app",
    "redis://:{}@cache:6379/0",
    "https://{}@git.example.com/repo.git",
    "amqp://bob:p@ss{}@broker/vhost",
    "https://bob:pa/{}@host/x",
    "//bob:{}@host/x",
    "https://api.example.com/v1?user=bob&access_token={}&page=2",
    "https://maps.example.com/api?key={}",
    "https://api.example.com/v1?a=1&key={}",
    "https://s3.example.com/b/o?X-Amz-Credential={}&X-Amz-Date=1",
    "https://s3.example.com/b/o?X-Amz-Signature={}",
    "https://a.blob.example.net/c?sv=2020&sig={}",
    "redirect=%2Fnext%3Fpassword%3D{}",
    # pairs
    "password={}",
    "password = {}",
    "Password: {}",
    "PGPASSWORD={}",
    "host=db user=bob password={} dbname=app",
    "host=db password='with space {}' dbname=app",
    "host=db password='it\\'s {}' dbname=app",
    "host=db password='it''s {}' dbname=app",
    "Server=x;Password={};Database=y",
    "AccountName=x;AccountKey={};EndpointSuffix=y",
    "client_secret={}&grant_type=x",
    "user[password]={}&x=1",
    "refresh_token={}",
    "apiKey={}",
    "api_key: {}",
    "APIKEY={}",
    "stripeApiKey={}",
    "passwd={}",
    "pwd={}",
    "DB_PASS={}",
    "passphrase={}",
    "https://api.example.com/login?user=bob&pass={}&page=2",
    "user=bob pass={} host=db",
    '{{"pass": "{}"}}',
    "https://api.example.com/login?pw={}",
    "db_pw={}",
    "passcode={}",
    "api_keys=['{}', 'b']",
    "accessTokens=['{}']",
    "tokens=['{}']",
    '{{"tokens": ["{}"]}}',
    "sessionid={}",
    "signature={}",
    "token => {}",
    "token := {}",
    "auth={}",
    "auth=('bob', '{}')",
    "credentials=[1, '{}']",
    "cookies={{'sid': '{}'}}",
    "token: password: {}",
    'token: password: "two words {}"',
    "error: password={}",
    'password=ab"cd{}',
    # JSON and reprs
    '{{"password": "{}"}}',
    '{{"password":"quo\\"ted {}","a":1}}',
    '{{\\"password\\": \\"{}\\"}}',
    '{{\\"password\\": \\"in\\\\\\"side {}\\"}}',
    "{{'token': '{}'}}",
    "{{'token': b'{}'}}",
    "Settings(user='bob', secret='{}')",
    "('x-api-key', '{}')",
    "[(b'X-Api-Key', b'{}'), (b'Host', b'x')]",
    '["--password","{}"]',
    "Command '['curl', '--token', '{}']' failed",
    "mysqldump --password {} app",
    "mysqldump --password={} app",
    "<password>{}</password>",
    # headers
    "Authorization: Bearer {}",
    "authorization: bearer {}",
    "Authorization: Digest username='bob', response='{}'",
    "Authorization: AWS4-HMAC-SHA256 Credential=AK/2, SignedHeaders=host, Signature={}",
    "Proxy-Authorization: Negotiate {}",
    "Authorization: Token {}",
    "Cookie: theme=dark; sid={}; lang=en",
    "Set-Cookie: sid={}; Path=/",
    "X-Api-Key: {}",
    "Idempotency-Key: {}",
    "sent Bearer {} and failed",
    "-H 'Authorization: Bearer {}'",
    # sentences
    "API key: {}",
    "api key is {}",
    "secret key: {}",
    "Access Key = {}",
    "password is {}",
    "the password was: '{}'",
    "wrong password '{}'",
    "the client secret is {}, says the server",
    "passphrase is {}",
    # redrive's own
    "POST http://redrive.example.com/v1/completions/{}",
    # private keys
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\\n{}\\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----\n{} and no end",
]

TOKENS = [
    JWT,
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "rk_test_4eC39HqLyjWDarjtT1zdp7dc",
    "sk-proj-abcdefghijklmnop123456",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "gho_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0123456789_abcdefghij",
    "glpat-0123456789abcdefghij",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihYzrnopKc1s5cr",
    "ya29.a0AfH6SMBx0123456789-abcdefghijkl_mnop",
    "shpat_0123456789abcdef0123456789abcdef",
    f"rdk_0123456789ab_{'0123456789abcdef' * 4}",
    "rdk_0123456789ab_01234567",
    f"Basic {base64.b64encode(b'bob:hunter2').decode()}",
]


@pytest.mark.promise("P11")
@pytest.mark.parametrize("template", LEAKS)
def test_a_secret_is_hidden_wherever_it_stands(template: str) -> None:
    text = template.format(SECRET)
    for shown in (redact(text), redact(f"before {text} after"), redact(f'{{"error": "x"}} {text}')):
        assert SECRET not in shown
        assert "***" in shown


@pytest.mark.promise("P11")
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_known_by_its_shape(token: str) -> None:
    value = token.split()[-1]
    for text in (token, f"got {token}.", f"({token})", f"x={token}", f"a/{token}/b", f"first\n{token}\nlast"):
        assert value not in redact(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://bob:pw@db/app", "postgresql://***@db/app"),
        ("https://h/p?token=abc&user=bob", "https://h/p?token=***&user=bob"),
        ("host=db password=pw dbname=app", "host=db password=*** dbname=app"),
        ('{"password": "abc", "user": "bob"}', '{"password": ***, "user": "bob"}'),
        ("Authorization: Bearer abc (attempt 3)", "Authorization: *** (attempt 3)"),
        ("Authorization: Digest a='b', c='d'\nHost: h", "Authorization: ***\\nHost: h"),
        ("f(user=bob, password=pw)", "f(user=bob, password=***)"),
        ("token=abc.", "token=***."),
        (f"bad token {JWT}, try again", "bad token ***, try again"),
    ],
)
def test_what_is_no_secret_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "connection refused",
        "[Errno 111] Connect call failed ('127.0.0.1', 80)",
        "Client error '404 Not Found' for url 'https://api.example.com/items?page=2&sort=name'",
        'password authentication failed for user "bob"',
        "The password is incorrect; the token is not valid, and the API key was revoked.",
        "your password is too short",
        "the key is missing: id, item 3.14.15",
        "The token has expired. Please sign in again: the session is over.",
        "no bearer token given; Bearer authentication is required",
        "a basic example: see the docs at http://localhost:8080/a@b.com",
        "mail bob@example.com or see https://example.com/@bob/post",
        "missing key: name, expected type=int at 12:30:45",
        "max_tokens=4096 token_type=jwt session_timeout=30 auth_method=none",
        "the author: Ann Author; secretary: Bob",
        "3 tests pass: all good",
        "pass=3 fail=1 skipped=0, strict pass=true",
        "unexpected tokens: } and ]; tokens=512, 'tokens': 300.",
        "npm_config_registry and hf_hub_download failed at msg. SG.1 /bot1: /webhooks/17/ping",
        "Größe: 5 µm → ok, 日本語 ✓",
        "{'status': 503, 'detail': 'try later'}",
        "x = [1, 2, 3]; y = {'a': 'b'}",
        "KeyError: 'customer_id'",
        "see https:// and // alone",
        "password=",
        "//@host",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


surroundings = st.text(max_size=60) | st.lists(
    st.sampled_from(["token", "password", "cookie", "auth", "a", *"\"'\\=:;&,<>()[]{} \n-_./?@#%"]), max_size=12
).map("".join)


@pytest.mark.promise("P11")
@settings(max_examples=150)
@given(
    st.sampled_from(LEAKS),
    st.text(alphabet=string.ascii_letters + string.digits, min_size=10, max_size=40).map("Q7{}".format),
    surroundings,
    surroundings,
    st.integers(0, 600),
)
@example("password={}", "A1b2C3d4E5f6", "token=", "", 500)
@example("password={}", "A1b2C3d4E5f6", "cookie: ", "", 500)
@example("password={}", "A1b2C3d4E5f6", 'token="', '"', 500)
def test_no_surroundings_bring_a_secret_back(template: str, secret: str, before: str, after: str, limit: int) -> None:
    assume(secret not in before + after)
    assert secret not in redact(f"{before} {template.format(secret)} {after}", limit)


@pytest.mark.promise("P11")
@pytest.mark.parametrize("filler", ["x", "x ", "lorem ipsum ", "a,b;", "/path"])
@pytest.mark.parametrize(
    "template",
    [
        "https://bob:{}@host/",
        "https://bob:pa/{}@host/",
        "password={}",
        'password="{}"',
        "Authorization: Digest x, {}",
        "Cookie: a=b; c={}",
        "-----BEGIN PRIVATE KEY-----\n{}",
        "Bearer {}",
    ],
)
def test_a_secret_across_the_cut_does_not_leak(template: str, filler: str) -> None:
    """Hidden secrets before it pull the place of the cut into what is shown."""
    secret = "Zq9" * 40
    text = template.format(secret)
    ahead = "token=" + "t" * 4300 + " "
    for shift in range(0, 400, 7):
        shown = redact(ahead + filler * (shift // len(filler)) + " " + text + " tail" * 500, 500)
        assert "Zq9Zq9" not in shown
        assert len(shown) <= 500


def test_a_token_across_the_cut_does_not_leak() -> None:
    ahead = "token=" + "t" * 4300 + " "
    for shift in range(0, 400, 7):
        shown = redact(f"{ahead}{'y' * shift} {JWT} {'tail ' * 500}", 500)
        assert "eyJhbGci" not in shown


@pytest.mark.promise("P11")
@pytest.mark.parametrize("template", ["//bob:{}@host", "bob:{}@host", "password={}", "&code={}", "sk-{}"])
def test_a_secret_in_a_word_without_end_does_not_leak(template: str) -> None:
    secret = "Zq9" * 20
    text = template.format(secret)
    for shift in range(0, 400, 7):
        for ahead in ("", "token=" + "t" * 4300 + "&", "eyJ" + "t" * 4200 + ".t"):
            shown = redact(f"{ahead}{'y' * shift}:{text}{'z' * 9000}", 500)
            assert "Zq9Zq9" not in shown
            assert len(shown) <= 500


def test_the_beginning_of_a_word_without_end_is_kept() -> None:
    assert redact("z" * 100_000) == "z" * 499 + ELLIPSIS
    assert redact("https://bob:" + "z" * 100_000) == f"https://***{ELLIPSIS}"


@pytest.mark.promise("P11")
def test_a_quote_inside_a_secret_does_not_end_it_whatever_it_is_wrapped_in() -> None:
    wrapped = '{"password":"quo\\"ted hunter2","a":1}'
    for _ in range(3):
        assert "hunter2" not in redact(wrapped)
        wrapped = str(KeyError(wrapped))


@pytest.mark.parametrize(
    "text",
    [
        '{"password":"quo\\"ted hunter2","a":1}',
        "password='a b' x",
        "authorization: Basic abc def",
        "Cookie: a=b; c=d",
        "token=abc&user=bob",
        "https://bob:secret@host/ password=x, more",
    ],
)
def test_what_was_redacted_stays_as_it_is(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text(), st.integers(-5, 50))
def test_the_length_is_bounded(text: str, limit: int) -> None:
    shown = redact(text, limit)
    assert len(shown) <= max(limit, 0)


def test_a_text_that_came_before_is_still_cut_where_less_is_wanted() -> None:
    assert redact("the service is away") == "the service is away"
    assert redact("the service is away", limit=8) == "the ser" + ELLIPSIS


@pytest.mark.promise("P11")
def test_what_is_kept_of_texts_has_no_secrets_and_is_bounded() -> None:
    for template in LEAKS:
        redact(template.format(SECRET))
    for number in range(3000):
        redact(f"order {number} was not found")
    redact("long " * 100)
    assert not [text for text in redaction._fit if SECRET in text or len(text) > 200]
    assert len(redaction._fit) <= 1000


def test_what_was_cut_says_so() -> None:
    assert redact("word " * 1000, 20) == "word word word word" + ELLIPSIS
    assert redact("word " * 10_000, 20).endswith(ELLIPSIS)
    assert redact("x" * 20, 20) == "x" * 20
    assert redact("x" * 21, 20) == "x" * 19 + ELLIPSIS


@pytest.mark.promise("P11")
@given(st.text())
def test_nothing_shown_can_break_a_line_or_a_terminal(text: str) -> None:
    assert redact(text).isprintable()


def test_control_characters_are_shown_as_escapes() -> None:
    assert redact("a\nb\r\x1b[31m\x00\u2028\u202e\ud800") == r"a\nb\r\x1b[31m\x00\u2028\u202e\ud800"
    assert redact("non\u00a0breaking\u3000space") == "non breaking space"


HOSTILE = [
    "x",
    " ",
    "=",
    ":",
    '"',
    "\\",
    "://",
    "//a:x",
    "a@",
    "password=",
    "password: ",
    'token="\\"',
    "auth=(",
    "token=[",
    "eyJ",
    "_eyJ",
    "eyJ.",
    "bearer ",
    "basic a",
    "--",
    "--a ",
    "-----BEGIN PRIVATE KEY",
    "a:",
    "a.",
    "<password>",
    "cookie:\n",
    "%3d",
    "', '",
    "/bot1",
    "/bot11111:",
    "/webhooks/1",
    "SG.a",
    "ya29.",
    "whsec_a",
    "tokens=1",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_no_time(piece: str) -> None:
    """A megabyte and a kilobyte more cost alike, since neither is read to its end."""
    short, long = piece * (8_192 // len(piece) + 1), piece * (1_000_000 // len(piece))
    spent = []
    for text in (short, long):
        started = time.perf_counter()
        redact(text)
        spent.append(time.perf_counter() - started)
    # Far above what it takes, far below what a quadratic pattern over a megabyte would.
    assert max(spent) < 2.0


SECRET_NAMES = (
    *("password", "PASSWORD", "user_password", "password2", "DB_PASS", "passwd", "pwd", "pw", "private_key", "jwt"),
    *(
        "passcode",
        "api_keys",
        "apiKey",
        "api-key",
        "API_KEY",
        "apikey",
        "X-Api-Key",
        "access_token",
        "accessToken",
        "refreshToken",
    ),
    *("client_secret", "secretKey", "aws_secret_access_key", "X-Amz-Signature", "sig", "session", "session_id"),
    *("sessionid", "JSESSIONID", "cookie", "Set-Cookie", "authorization", "auth", "credentials"),
)
OTHER_NAMES = (
    *("user", "author", "authority", "secretary", "pass", "compass", "keyboard", "monkey", "key", "12", "_", "-"),
    *("tokens", "max_tokens", "token_type", "token_count", "session_timeout", "auth_url", "password_policy"),
    *("sign", "design", "assign", "cookie_domain"),
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_other_things(name: str) -> None:
    assert not names_a_secret(name)


@pytest.mark.promise("P11")
@pytest.mark.parametrize(
    "text",
    [
        "cannot reach app:hunter2@db.internal",
        "redirected to https://x.example/cb?code=hunter2&state=1",
        "POST https://hooks.slack.com/services/T0/B0/hunter2 failed",
        "pin=hunter2",
        "GET api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeofShunter2PALDsaw/getMe: HTTP 503",
        "GET api.telegram.org/file/bot110201543%3AAAHdqTcvCH1vGWJxfSeofShunter2PALDsaw/photo: HTTP 503",
        "POST discord.com/api/v10/webhooks/1097000000000000000/kQx8vN2mZp4sYtR7wB1chunter2D5eF9gH3jK6: HTTP 503",
    ],
)
def test_secrets_that_a_first_user_found_in_the_open(text: str) -> None:
    assert "hunter2" not in redact(text)


@pytest.mark.parametrize(
    "text", ["exit code=3", "at 12:30 by bob@example.com", "status: 503, see https://x.example/a:b"]
)
def test_prose_that_only_looks_like_them_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.fixture
def _nothing_added() -> Iterator[None]:
    yield
    ADDED.clear()
    hide_secrets()


@pytest.mark.promise("P11")
@pytest.mark.usefixtures("_nothing_added")
def test_the_token_that_completes_an_attempt_is_hidden() -> None:
    attempt = Attempt(
        flow_id=ordered_id(1.0),
        item=12,
        step="pay",
        number=1,
        delivery_token=random_token(),
        policy=Policy(),
        timeout=None,
        timeout_at=None,
        details=None,
        on_beat=lambda *_: None,
    )
    shown = redact(f"got {completion_token(attempt)} twice")
    assert attempt.delivery_token not in shown
    assert attempt.flow_id in shown


@pytest.mark.promise("P11")
@pytest.mark.usefixtures("_nothing_added")
def test_users_add_names_and_patterns() -> None:
    text = "customerTaxNumber=17 iban: DE89 for 123-45-6789, member acme_Zz0123456789"
    assert redact(text) == text
    assert not names_a_secret("iban")
    hide_secrets(names=["tax_number", "IBAN"], patterns=[r"\d{3}-\d{2}-\d{4}", "acme_[A-Za-z0-9]{10,}"])
    assert redact(text) == "customerTaxNumber=*** iban: *** for ***, member ***"
    assert names_a_secret("iban")
    assert names_a_secret("TAX-NUMBER")
    assert redact("123-45-678 iberian acme_short") == "123-45-678 iberian acme_short"


@pytest.mark.usefixtures("_nothing_added")
@pytest.mark.parametrize(
    ("names", "patterns", "said"),
    [
        ([""], [], "names: '' is not a name"),
        (["x" * 81], [], "is not a name"),
        ([3], [], "names: 3 is not a name"),
        ("iban", [], "pass a list"),
        ([f"n{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(201)], [], "201 are too many; use at most 200"),
        ([], [""], "use 1 to 200 characters"),
        ([], ["(a+)+b"], r"not allowed from '\(a\+\)\+b' on"),
        ([], ["abc|def"], r"not allowed from '\|def' on"),
        ([], ["abc(?=d)"], "no groups"),
        ([], [r"abc\1"], "not allowed from"),
        ([], ["[abc"], "not allowed from"),
        ([], ["abc[z-a]"], "bad character range"),
        ([], ["a*b*c*"], "fewer than 3 characters"),
        ([], ["abc{2,999}"], "repeat at most 256 times"),
        ([], [f"abc{i}" for i in range(50)], "51 are too many; use at most 50"),
    ],
)
def test_what_cannot_be_added_is_refused_whole(names: Any, patterns: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        hide_secrets(names=names, patterns=["fine_[0-9]{3}", *patterns] if isinstance(patterns, list) else patterns)
    assert redact("fine_123") == "fine_123"


@pytest.mark.usefixtures("_nothing_added")
def test_no_text_makes_an_added_pattern_slow() -> None:
    hide_secrets(patterns=[r"a\w+\w+\w+\w*!", r"\w+\d+\w+-x", r"[ab]*[ab]*[ab]+c!!"])
    compiled = [pattern.pattern for pattern in ADDED.patterns]
    assert all("+" in part for pattern in compiled for part in pattern.split("}")[1:]), "every repeat is possessive"
    for text in ("a" * 100_000, "ab" * 50_000, "a1" * 50_000):
        assert redact(text)[:10] == text[:10]
