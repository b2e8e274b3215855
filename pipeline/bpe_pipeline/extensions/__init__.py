"""What is outside `train -> encode`, one folder each: none imports another, and only the command line imports them."""
