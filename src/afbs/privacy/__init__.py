"""One way for the server to learn which clients are alike a file; `docs/privacy.md` says what each one protects.

What a deployment needs of them is in `halves` (a mechanism's two halves), `messages` (what passes between them) and
`keys` (what clients keep secret); `exposure` is how a mechanism says what it gives away. Files that begin with `_` are
for the others in this folder.
"""
