"""The vocabulary of programs, connectors and the engine: interfaces and plain types, with no engine behind them."""
