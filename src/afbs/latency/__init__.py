"""One model of durations or of availability a file."""
