"""Render a report in its formats: terminal, Markdown, HTML, JSON, JUnit and SARIF."""
