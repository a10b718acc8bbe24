print(read_text(results[TEXT]))
