"""Classifies names by whether their values are secrets.

sensitivity("DB_PASSWORD"), sensitivity("token"), sensitivity("max_tokens")     # SECRET, COUNTED, PUBLIC
is_secret_value("dbPass", "tulip"), is_secret_value("label_key", "tips")        # True, False
is_secret_value("token", 7), is_secret_value("password", "${PASSWORD}")         # False, False
"""

from __future__ import annotations

import functools
import re

MASK = "***"
PUBLIC, COUNTED, SECRET = "public", "counted", "secret"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ANYWHERE = re.compile(
    r"pass(?:word|wd|phrase|code|wort)|pswd|secret(?!ar)|credential|authorization|cookie(?!cutter)|webhook"
    r"|conn(?:ection)?str|userpwd|mnemonic"
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
# Other keys are those of data: LABEL_KEY = "tips", primary_key, cache_key.
_KEY_OF = _words("""
    api private access account encryption encrypt decryption decrypt signing sign secret storage shared master
    auth authentication authorization ssh ssl tls pgp gpg service subscription license licence deploy aes rsa dsa
    ecdsa hmac crypto cryptographic cipher admin root consumer application app client vault webhook host server
    security session jwt fernet aws azure gcp google openai anthropic stripe wandb comet neptune mlflow
    huggingface hf slack github gitlab twilio sendgrid mailgun datadog newrelic sentry pagerduty algolia maps
    kaggle cohere
""")
_TOKEN_FOR = _words("""
    pad padding unk unknown eos bos sos mask sep separator cls oov start end begin stop special classification
    first last next prev previous max min num per new additional extra image audio blank newline word sub subword
""")
_TOKEN_OWNERS = _words("api auth access refresh bearer session secret personal id deploy bot oauth")
SCHEMES = _words("""
    basic bearer digest negotiate ntlm kerberos oauth oauth2 oidc saml iam google github ldap sso jwt token apikey
    anonymous default mtls ssl gcloud azure aws
""")
_STATES = _words("""
    none null nil true false yes no on off required missing unset empty invalid incorrect wrong expired unknown
    optional redacted hidden masked str int bytes bool any string undefined nan
""")
_PLACEHOLDER = re.compile(
    r"\*+|[xX]{3,}|<[^<>]*>|\$\{[^{}]*\}|\$[A-Z_][A-Z\d_]*|\$\([^()]*\)|\{\{.*\}\}|\{\w*\}|%\(\w+\)s|%s|\.{3}|…|[|>][-+\d]*|"
    r"\[?redacted\]?|(?:os\.)?(?:environ|getenv)\b.*|(?:typing\.)?Optional\[.*|your[-_ ].*",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z\d]+)*")
_NUMBER = re.compile(r"(?:[-+]?[\d.][\d.,_]*(?:[eE][-+]?\d+)?%?)?")
_BETWEEN_NUMBERS = re.compile(r"[\s,\[\](){}]+")
_MAX_HARMLESS = 200  # longer values are secrets, whatever they contain: a scan resumes inside of a harmless one
_MAX_NAME = 100  # trailing characters of a name that are examined


def sensitivity(name: str) -> str:
    """Returns the sensitivity of values with this name.

    Returns:
      SECRET: A secret, even if it is a number.
      COUNTED: A secret unless it is a number: token, auth.
      PUBLIC: Not a secret by its name.
    """
    return _sensitivity(name[-_MAX_NAME:])


@functools.lru_cache(maxsize=4096)
def _sensitivity(name: str) -> str:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return PUBLIC
    *before, last = [word for word in words if not word.isdigit()] or words
    if len(words) > 1 and (
        last in _ABOUT or (words[0] in _FLAGS and len(words) == 2 and last in ("secret", "secrets", "auth"))
    ):
        return PUBLIC
    if _ANYWHERE.search("".join(words)) or last in _LAST or last.endswith("pwd"):
        return SECRET
    return _by_last_word(set(before), last)


def _by_last_word(qualifiers: set[str], last: str) -> str:
    if last.endswith(("key", "keys")):
        return SECRET if (qualifiers | {last.removesuffix("s").removesuffix("key")}) & _KEY_OF else PUBLIC
    if last.endswith("pass"):
        owners = qualifiers | {last.removesuffix("pass")} - {""}
        return COUNTED if not owners or owners & _PASS_OF else PUBLIC
    if last in ("auth", "oauth"):
        return PUBLIC if qualifiers & _FLAGS else COUNTED
    if last == "tokens":
        return COUNTED if qualifiers & _TOKEN_OWNERS else PUBLIC
    if last.endswith("token") or "token" in qualifiers:
        return PUBLIC if qualifiers & _TOKEN_FOR else COUNTED
    return COUNTED if last in ("pat", "license", "licence") and qualifiers & _KEY_OF else PUBLIC


def is_secret_value(name: str, value: object) -> bool:
    """Whether a value is a secret if it has this name: not for None, booleans, states, placeholders and paths."""
    kind = sensitivity(name)
    if kind == PUBLIC or value is None or isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return kind == SECRET
    text = (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip()
    if kind == COUNTED and all(map(_NUMBER.fullmatch, _BETWEEN_NUMBERS.split(text))):
        return False
    return len(text) > _MAX_HARMLESS or not _is_harmless(name, text)


def _is_harmless(name: str, text: str) -> bool:
    """Whether a value only describes or refers to a secret."""
    if not text.strip("[](){} \t\n") or text.lower() in _STATES or _PLACEHOLDER.fullmatch(text.rstrip(".,;")):
        return True
    if _VARIABLE.fullmatch(text) and sensitivity(text) != PUBLIC:  # --token TOKEN, PASSWORD = "DB_PASSWORD"
        return True
    last = [word.lower() for word in _WORDS.findall(name)][-1]
    if last in ("auth", "oauth"):
        return text.lower() in SCHEMES
    if last in ("pwd", "credentials", "credential"):  # PWD=/work, GOOGLE_APPLICATION_CREDENTIALS=/run/gcp.json
        return text.startswith(("/", "~/", "./", "../", "gs://", "s3://")) and " " not in text
    return False
