"""What a program keeps of its streams between two jobs: cached streams, and the files of DataFrames."""
