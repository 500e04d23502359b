"""What is known about the errors of Python and of common libraries, by class name: none of them is ever imported."""
