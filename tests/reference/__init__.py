"""Dense references of the kernels: every user-item pair written out, for problems of a few dozen users.

poisson       Poisson factorization: stage 1 of the exposures, stage 2 of ratings; the evidence lower bound
ridge         stage 2 with Gaussian ratings: the objective J and its exact coordinate updates
metrics       the metrics of a list and of an evaluation, user by user
predictive    the exposure predictive check: distribution and worth of held-out exposures
exposure      a_hat of single pairs without their own exposure
certainty     variances of predictions, sensitivity to hidden confounding
explain       what each of a user's ratings contributes to a preference
topn          scores of all pairs in two parts, and the best unseen items of each user
"""
