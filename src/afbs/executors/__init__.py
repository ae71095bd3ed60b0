"""Where jobs are computed: in this process, or in one process a core."""
