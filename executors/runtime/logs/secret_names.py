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

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def any_of(words: str) -> str:
    """Returns the pattern of some words."""
    return f"(?:{'|'.join(words.split())})"


# Names that end in one of these describe a secret instead of containing it: password_file, token_type, secret_name.
_ABOUT = any_of("""
    file files path dir folder name names type types length len size count counts dim dims policy field header
    column columns env var variable prompt hint regex pattern enabled required expiry expires ttl rotation manager
    provider scope scopes format version age min max embedding embeddings ids index indices vocab rate ratio
    frequency limit budget usage method mode strategy classes table position positions weight weights mask
    ref refs arn error exception py cc json yaml yml toml txt log
""")
_FLAGS = any_of("""
    no not use is has require requires skip allow enable disable show hide with need needs env pull
""")
_PASS_OF = any_of("""
    db database user usr smtp mail email ftp sftp ssh admin root my redis mysql pg postgres postgresql mongo
    mongodb ldap proxy http https basic login client service svc app auth key store keystore truststore ssl tls
    cert sudo broker rabbitmq kafka oracle mssql sql api wifi vpn
""")
# Other keys are those of data: LABEL_KEY = "tips", primary_key, cache_key.
_KEY_OF = any_of("""
    api private access account encryption encrypt decryption decrypt signing sign secret storage shared master
    auth authentication authorization ssh ssl tls pgp gpg service subscription license licence deploy aes rsa dsa
    ecdsa hmac crypto cryptographic cipher admin root consumer application app client vault webhook host server
    security session jwt fernet aws azure gcp google openai anthropic stripe wandb comet neptune mlflow
    huggingface hf slack github gitlab twilio sendgrid mailgun datadog newrelic sentry pagerduty algolia maps
    kaggle cohere
""")
_TOKEN_FOR = any_of("""
    pad padding unk unknown eos bos sos mask sep separator cls oov start end begin stop special classification
    first last next prev previous max min num per new additional extra image audio blank newline word sub subword
""")
_COUNTABLE = ("keys", "secrets", "cookies", "webhooks")  # "secrets: 3"
_TOKEN_OWNERS = any_of("api auth access refresh bearer session secret personal id deploy bot oauth")
# The sensitivity of names as words in lower case: "db_pass"; the first rule that matches counts.
_RULES = (
    (PUBLIC, re.compile(rf"\w+_{_ABOUT}")),
    (PUBLIC, re.compile(rf"(?:\w+_)?{_FLAGS}_(?:secrets?|(?:\w+_)?o?auth)")),
    (
        SECRET,
        re.compile(
            r"\w*(?:pass_?(?:word|wd|phrase|code|wort)|pswd|user_?pwd|secret(?!ar|s?_?manager)|credential"
            r"|authorization)\w*"
        ),
    ),
    (SECRET, re.compile(r"\w*(?:cookie(?!_?cutter)|web_?hook|conn(?:ection)?_?str|mnemonic)\w*")),
    (SECRET, re.compile(r"(?:\w+_)?(?:pw|passwd|psk|jwt|dsn|otp|totp|creds|bearer|sas)|\w*pwd")),
    (SECRET, re.compile(rf"(?:\w+_)?{_KEY_OF}(?:_\w+)?_?keys?(?:_(?:data|value|pem))?")),
    (COUNTED, re.compile(rf"(?:\w+_)?{_KEY_OF}_(?:\w+_)?(?:pat|licen[cs]e)")),
    (COUNTED, re.compile(rf"(?:(?:\w+_)?{_PASS_OF}(?:_\w+)?_?)?pass")),
    (COUNTED, re.compile(r"(?:\w+_)?o?auth")),
    (COUNTED, re.compile(rf"(?:\w+_)?{_TOKEN_OWNERS}_(?:\w+_)?tokens")),
    (PUBLIC, re.compile(rf"(?:\w+_)?{_TOKEN_FOR}_\w+|\w+(?:keys?|pass|tokens)")),
    (COUNTED, re.compile(r"\w*token|(?:\w+_)?token_\w+")),
)
SCHEMES = any_of("""
    basic bearer digest negotiate ntlm kerberos oauth oauth2 oidc saml iam google github ldap sso jwt token apikey
    anonymous default mtls ssl gcloud azure aws
""")
_STATES = any_of("""
    none null nil true false yes no on off required missing unset empty invalid incorrect wrong expired unknown
    optional redacted hidden masked str int bytes bool any string undefined nan
    ok enabled disabled started failed
""")
_PLACEHOLDER = re.compile(
    rf"{_STATES}|\*+|x{{3,}}|<[^<>]*>|\$\{{[^{{}}]*\}}|\$[A-Z_][A-Z\d_]*|\$\([^()]*\)|\{{\{{.*\}}\}}|\{{\w*\}}"
    r"|%(?:\(\w+\))?s|\.{3}|…|[|>][-+\d]*|\[redacted\]|(?:os\.)?(?:environ|getenv)\b.*"
    r"|[\w.]+\(\)|[\w.]*Optional\[.*|your[-_ ].*",
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
      COUNTED: A secret unless it is a number: token, auth, secrets.
      PUBLIC: Not a secret by its name.
    """
    return _sensitivity(name[-_MAX_NAME:])


@functools.lru_cache(maxsize=4096)
def _sensitivity(name: str) -> str:
    words = "_".join(_WORDS.findall(name)).lower()
    kind = next((kind for kind, pattern in _RULES if pattern.fullmatch(words)), PUBLIC)
    return COUNTED if kind == SECRET and words.endswith(_COUNTABLE) else kind


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
    if not text.strip("[](){} \t\n") or _PLACEHOLDER.fullmatch(text.rstrip(".,;")):
        return True
    if _VARIABLE.fullmatch(text) and sensitivity(text) != PUBLIC:  # --token TOKEN, PASSWORD = "DB_PASSWORD"
        return True
    last = [word.lower() for word in _WORDS.findall(name)][-1]
    if last in ("auth", "oauth"):
        return re.fullmatch(SCHEMES, text, re.IGNORECASE) is not None
    if last in ("pwd", "credentials", "credential"):  # PWD=/work, GOOGLE_APPLICATION_CREDENTIALS=/run/gcp.json
        return text.startswith(("/", "~/", "./", "../", "gs://", "s3://")) and " " not in text
    return False
