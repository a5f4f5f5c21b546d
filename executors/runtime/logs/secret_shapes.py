"""Token formats of well-known issuers, by which secrets are recognized without a name."""

from __future__ import annotations

import re

_SHAPES = (
    r"\b(?:A(?:KI|SI|BI|CC)A[A-Z0-9]{16}"  # AWS
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}"  # Google
    r"|gh[pousr]_\w{30,}|github_pat_\w{22,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{20,}"
    r"|xox[abeprs](?:-\d)?[-.][\w-]{10,}|xapp-\d-[\w-]{10,}"  # Slack
    r"|hf_[A-Za-z\d]{30,}|api_org_[A-Za-z\d]{30,}|sk-[\w-]{20,}|sess-[A-Za-z\d]{30,}"
    r"|(?:[sr]k|pk)_(?:live|test)_[A-Za-z\d]{10,}|whsec_[\w+/=]{16,}"  # Stripe
    r"|pypi-[\w-]{50,}|npm_[A-Za-z\d]{36}|rubygems_[a-f\d]{40,}|oy2[a-z\d]{43}|dckr_(?:pat|oat)_[\w-]{20,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|SK[a-f\d]{32}|key-[a-f\d]{32}|[a-f\d]{32}-us\d{1,2}|xkeysib-[\w-]{40,}"
    r"|AccountKey=[A-Za-z\d+/]{40,}={0,2}|AKCp[A-Za-z\d]{20,}"
    r"|do[por]_v1_[a-f\d]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F\d]{32}|sq0(?:atp|csp)-[\w-]{20,}|EAAA[\w-]{60}"
    r"|dapi[a-f\d]{32}(?:-\d)?|hv[sbr]\.[\w-]{20,}|[A-Za-z\d]{14}\.atlasv1\.[\w-]{40,}|ATATT3[\w=-]{50,}"
    r"|gsk_[A-Za-z\d]{30,}|xai-[A-Za-z\d]{40,}|pplx-[A-Za-z\d]{30,}|nvapi-[\w-]{40,}|r8_[A-Za-z\d]{30,}"
    r"|sntry[su]_[\w=+/-]{40,}|NRAK-[A-Z\d]{27}|glsa_\w{30,}|glc_[\w=+/]{30,}|PMAK-[a-f\d]{24}-[a-f\d]{34}"
    r"|figd_[\w-]{30,}|sbp_[a-f\d]{40}|lin_api_[A-Za-z\d]{30,}|ntn_[A-Za-z\d]{30,}|secret_[A-Za-z\d]{43}"
    r"|dp\.(?:pt|st|ct|sa)\.[\w.-]{30,}|pul-[a-f\d]{40}|tfp_[\w-]{30,}|pat[A-Za-z\d]{14}\.[a-f\d]{64}"
    r"|\d{8,10}:AA[\w-]{33}|[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}"  # Telegram, Discord
    r"|AGE-SECRET-KEY-1[A-Z\d]{50,}|eyJ[\w-]{8,}\.(?:eyJ)?[\w-]{8,}(?:\.[\w-]{8,}){1,3})"  # a JSON web token
    r"|-----BEGIN [A-Z\d ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z\d ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
SHAPES = re.compile(_SHAPES, re.DOTALL)

# The secret is the part after the service's address.
WEBHOOKS = re.compile(
    r"(?i)https?://(?:"
    r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|(?:[\w-]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/"
    r"|[\w.-]*webhook\.office(?:365)?\.com/webhookb?2?/|outlook\.office(?:365)?\.com/webhook/"
    r"|[\w.-]*\.logic\.azure\.com(?::\d+)?/workflows/|[\w.-]*powerplatform\.com(?::\d+)?/(?:[\w.-]+/)*workflows/"
    r"|api\.telegram\.org/(?:file/)?bot"
    r"|hooks\.zapier\.com/hooks/|maker\.ifttt\.com/trigger/[^/\s]+/(?:json/)?with/key/"
    r"|events\.pagerduty\.com/integration/|hook\.(?:[\w-]+\.)?make\.com/|hook\.integromat\.com/"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v\d/)?hook/"
    r"|[^\s\"'<>/@]{1,200}/(?:[^\s\"'<>/?#]{1,100}/){0,6}?(?:web)?hooks?(?:-test)?/(?=[^\s\"'<>]{0,200}\d)"
    r")(?P<secret>[^\s\"'<>\\]+)"
)
