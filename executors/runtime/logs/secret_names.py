"""Classifies names by whether their values are secrets, and values by whether they can be secrets.

sensitivity("DB_PASSWORD")         # SECRET: for any value
sensitivity("max_tokens")          # PUBLIC
sensitivity("sendgrid_key")        # OPAQUE: a secret if the value looks random
is_secret_value("label_key", "tips"), is_secret_value("dbPass", "tulip")     # False, True
"""

from __future__ import annotations

import functools
import re

MASK = "***"
PUBLIC, OPAQUE, COUNTED, SECRET = "public", "opaque", "counted", "secret"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ANYWHERE = re.compile(
    r"pass(?:word|wd|phrase|code|wort)|pswd|secret(?!ar)|credential|authorization|cookie|webhook|conn(?:ection)?str"
    r"|userpwd|mnemonic"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LAST = _words("pwd pw passwd psk jwt dsn otp totp creds bearer sas")
# Names that end in one of these describe a secret instead of containing it: password_file, token_type, secret_name.
_ABOUT = _words("""
    file files path dir folder name names type types length len size count counts dim dims policy field header
    column columns env var variable prompt hint regex pattern enabled required expiry expires ttl rotation manager
    provider scope scopes format version age min max embedding embeddings ids index indices vocab rate ratio
    frequency limit budget usage method mode strategy classes table position positions weight weights mask
""")
_FLAGS = _words("""
    no not use is has require requires skip allow enable disable show hide with need needs env
""")
_PASS_OF = _words("""
    db database user usr smtp mail email ftp sftp ssh admin root my redis mysql pg postgres postgresql mongo
    mongodb ldap proxy http https basic login client service svc app auth key store keystore truststore ssl tls
    cert sudo broker rabbitmq kafka oracle mssql sql api wifi vpn
""")
_KEY_OF = _words("""
    api private access account encryption encrypt decryption decrypt signing sign secret storage shared master
    auth authentication authorization ssh ssl tls pgp gpg service subscription license licence deploy aes rsa dsa
    ecdsa hmac crypto cryptographic cipher admin root consumer application app client vault webhook host server
    security session jwt fernet aws azure gcp google openai anthropic stripe wandb comet neptune mlflow
    huggingface hf slack github gitlab twilio sendgrid mailgun datadog newrelic sentry pagerduty algolia maps
    kaggle cohere
""")
# Names of features and outputs in TFX and Keras code: LABEL_KEY = "tips".
_KEY_FOR = _words("""
    label labels feature features primary foreign sort partition cache dict group example examples weight weights
    image text input inputs output outputs signature serving model eval train transformed raw column prediction
    predictions probabilities probability score scores class classes index row record data id sequence context
    target loss metric metrics monitor tensor dataset split slice slicing dense sparse bucket vocab categorical
    numeric numerical string float int fare query item user join lookup natural composite unique candidate
    surrogate hash range shard routing message object s3 field json yaml config map registry state
""")
_TOKEN_FOR = _words("""
    pad padding unk unknown eos bos sos mask sep separator cls oov start end begin stop special classification
    first last next prev previous max min num per new additional extra image audio blank newline word sub subword
""")
_TOKEN_OWNERS = _words("api auth access refresh bearer session secret personal id deploy bot oauth")
_SCHEMES = _words("""
    basic bearer digest negotiate ntlm kerberos oauth oauth2 oidc saml iam google github ldap sso jwt token apikey
    anonymous default mtls ssl gcloud azure aws
""")
_STATES = _words("""
    none null nil true false yes no on off required missing unset empty invalid incorrect wrong expired unknown
    optional redacted hidden masked str int bytes bool any string undefined nan
""")
_PASSES = _words("first second third forward backward train training eval evaluation analyze transform")
_PLACEHOLDER = re.compile(
    r"\*+|[xX]{3,}|<[^<>]*>|\$\{[^{}]*\}|\$[A-Z_][A-Z\d_]*|\$\([^()]*\)|\{\{.*\}\}|\{\w*\}|%\(\w+\)s|%s|\.{3}|…|[|>][-+\d]*|"
    r"\[?redacted\]?|(?:os\.)?(?:environ|getenv)\b.*|(?:typing\.)?Optional\[.*|your[-_ ].*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?[\d.][\d.,_]*(?:[eE][-+]?\d+)?%?")
_IDENTIFIER = re.compile(r"[a-z]+\d{0,3}(?:[_ ][a-z]*\d{0,4})*|[A-Z]+(?:_[A-Z\d]+)*|[a-z]*(?:[A-Z][a-z]+)*\d{0,2}")
_PATH = re.compile(r"(?:~|\.{1,2})?/.*|[a-z\d]+://.*|[A-Z]:\\.*|(?:[\w.-]+/)+[\w.-]+")
_MIN_OPAQUE_LENGTH = 8
_JUDGED = 1000  # leading characters of a value that are examined


@functools.lru_cache(maxsize=4096)
def sensitivity(name: str) -> str:
    """Returns the sensitivity of values with this name.

    Returns:
      SECRET: A secret, even if it is a number.
      COUNTED: A secret unless it is a number: token, auth.
      OPAQUE: A secret only if it looks random, because the name is also used for keys of data.
      PUBLIC: Not a secret by its name.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return PUBLIC
    *before, last = [word for word in words if not word.isdigit()] or words
    if len(words) > 1 and (
        last in _ABOUT or (words[0] in _FLAGS and len(words) == 2 and last in ("secret", "secrets", "auth"))
    ):
        return PUBLIC
    compact = "".join(words)
    if _ANYWHERE.search(compact) or last in _LAST or last.endswith("pwd"):
        return SECRET
    return _by_last_word(before, last)


def _by_last_word(before: list[str], last: str) -> str:
    qualifiers = set(before)
    if last in ("key", "keys") or last.endswith("key"):
        return _of_key(qualifiers | {last.removesuffix("s").removesuffix("key")} - {""})
    if last in ("pass", "auth", "oauth") and not qualifiers & _FLAGS:
        return COUNTED
    if last.endswith("pass") and last.removesuffix("pass") in _PASS_OF:
        return COUNTED
    if last == "tokens":
        return COUNTED if qualifiers & _TOKEN_OWNERS else PUBLIC
    if last.endswith("token") or "token" in qualifiers:
        return PUBLIC if qualifiers & _TOKEN_FOR else COUNTED
    return OPAQUE if last in ("pat", "sig", "license", "licence") else PUBLIC


def _of_key(qualifiers: set[str]) -> str:
    if qualifiers & _KEY_OF:
        return SECRET
    return PUBLIC if qualifiers & _KEY_FOR else OPAQUE


def is_secret_value(name: str, value: object) -> bool:
    """Whether a scalar value is a secret if it has this name."""
    kind = sensitivity(name)
    if kind == PUBLIC or value is None or isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return kind == SECRET
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    text = text.strip()[:_JUDGED]
    if not text or text.lower() in _STATES or _PLACEHOLDER.fullmatch(text):
        return False
    if _NUMBER.fullmatch(text):
        return kind == SECRET
    if kind == OPAQUE:
        return is_opaque(text)
    return not _is_harmless(name, text)


def is_opaque(text: str) -> bool:
    """Whether a text looks random rather than like a word, an identifier, a path or a sentence."""
    if (
        len(text) < _MIN_OPAQUE_LENGTH
        or any(map(str.isspace, text))
        or _IDENTIFIER.fullmatch(text)
        or _PATH.fullmatch(text)
    ):
        return False
    digits = sum(map(str.isdigit, text))
    letters = sum(map(str.isalpha, text))
    return digits > 0 and letters > 1 and len(set(text)) >= _MIN_OPAQUE_LENGTH // 2


def _is_harmless(name: str, text: str) -> bool:
    """Whether a value is a typical harmless one for a name that is used for secrets and for other values."""
    last = [word.lower() for word in _WORDS.findall(name)][-1]
    if last in ("auth", "oauth"):
        return text.lower() in _SCHEMES
    if last == "pass":
        return text.lower() in _PASSES
    if last in ("pwd", "credentials", "credential"):  # PWD=/work, GOOGLE_APPLICATION_CREDENTIALS=/run/gcp.json
        return text.startswith(("/", "~/", "./", "../", "gs://", "s3://")) and " " not in text
    return False
