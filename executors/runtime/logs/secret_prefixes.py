"""The tokens of well-known issuers, which are recognized by their prefix, without a name."""

from __future__ import annotations

# Issuer, and the pattern of its tokens; at most 30 issuers, each with an example in the security tests.
ISSUERS = (
    ("AWS", r"A(?:KI|SI)A[A-Z\d]{16}"),
    ("Google API", r"AIza[\w-]{35}"),
    ("Google OAuth", r"(?:ya29\.|GOCSPX-)[\w-]{20,}"),
    ("GitHub", r"(?:gh[pousr]_|github_pat_)\w{22,}"),
    ("GitLab", r"gl(?:pat|dt|rt|ptt|soat)-[\w-]{20,}"),
    ("Slack", r"(?:xox[abeprs]|xapp)-[\w-]{10,}"),
    ("Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[^\s\"'<>\\]+"),
    ("Discord webhook", r"discord(?:app)?\.com/api/webhooks/[^\s\"'<>\\]+"),
    ("Microsoft Teams webhook", r"webhook\.office\.com/webhookb2/[^\s\"'<>\\]+"),
    ("Telegram", r"api\.telegram\.org/(?:file/)?bot[^\s\"'<>\\]+"),
    ("Stripe", r"(?:[sr]k_(?:live|test)|whsec)_\w{10,}"),
    ("OpenAI and Anthropic", r"sk-[\w-]{20,}"),
    ("Hugging Face", r"hf_[A-Za-z\d]{30,}"),
    ("npm", r"npm_[A-Za-z\d]{36}"),
    ("PyPI", r"pypi-[\w-]{50,}"),
    ("Docker", r"dckr_[po]at_[\w-]{20,}"),
    ("SendGrid", r"SG\.[\w-]{16,64}\.[\w-]{16,}"),
    ("Twilio", r"SK[a-f\d]{32}"),
    ("Databricks", r"dapi[a-f\d]{32}(?:-\d)?"),
    ("DigitalOcean", r"do[por]_v1_[a-f\d]{40,}"),
    ("Vault", r"hv[sbr]\.[\w-]{20,}"),
    ("Atlassian", r"ATATT3[\w=-]{50,}"),
    ("Groq", r"gsk_[A-Za-z\d]{30,}"),
    ("NVIDIA", r"nvapi-[\w-]{40,}"),
    ("Replicate", r"r8_[A-Za-z\d]{30,}"),
    ("Shopify", r"shp(?:at|ca|pa|ss)_[a-fA-F\d]{32}"),
    ("Grafana", r"gl(?:sa|c)_[\w=+/]{30,}"),
    ("JSON web token", r"eyJ[\w-]{8,}\.(?:eyJ)?[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{8,}){0,2}"),
    ("PEM", r"-----BEGIN [A-Z\d ]{0,40}PRIVATE KEY(?s:.*?)(?:-----END [A-Z\d ]{0,40}KEY(?: BLOCK)?-----|\Z)"),
)
# A token starts a word, or follows an escaped line break. Without the hyphen, "eyJ-eyJ-…" would take quadratic time.
PATTERN = rf"(?:(?<![\w-])|(?<=\\[nrt]))(?:{'|'.join(pattern for _, pattern in ISSUERS)})"
