"""Learning W from labeled samples: graph, objective, problem, line search, solver."""
