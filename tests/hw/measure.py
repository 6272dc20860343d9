CASES = []
SELF_TEST = []
