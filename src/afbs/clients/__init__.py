"""What happens on a client. Raw samples and label counts are seen here and nowhere else."""
