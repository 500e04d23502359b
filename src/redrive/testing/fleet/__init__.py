"""A fleet of workers in one process: machines that crash and freeze, a store that loses answers, virtual time."""
