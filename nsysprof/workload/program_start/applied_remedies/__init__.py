"""Apply remedies inside a measured program, and write down what took effect. The program imports this by its path."""
