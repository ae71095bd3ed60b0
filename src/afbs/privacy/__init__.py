"""One way for the server to learn which clients are alike a file. Files that begin with `_` are what they share.

`_halves` has the interface between a mechanism's two halves; `docs/privacy.md` says what each one protects.
"""
