"""Slow, dense references of the kernels: every user-item pair written out, one loop per sum of the formulas.

    poisson          stage 1: Poisson factorization of the exposures, and its evidence lower bound
    poisson_outcome  stage 2 with Poisson ratings: preference, confounder and intercept share each rating
    ridge            stage 2 with Gaussian ratings: the objective J and its exact coordinate updates
    metrics          the metrics of a list and of an evaluation, user by user
    predictive       the exposure predictive check: distribution and worth of held-out exposures
    explain          what each of a user's ratings contributes to a preference
    topn             scores of all pairs in two parts, and the best unseen items of each user

They form U x I arrays and are meant for problems of a few dozen users. Names follow the package: exposure
factors are ``user_exposure`` (pi), ``item_exposure`` (lambda); outcome factors ``user_preference`` (theta),
``item_attribute`` (beta), ``confounder_weight`` (gamma) and ``intercept`` (beta_0).
"""
