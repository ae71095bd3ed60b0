"""Where jobs are computed: in this process, in one process a core, or on the machines of a Ray cluster."""
