"""A saved model and new users' ratings in, their recommendations and factors out. See ``--help``.

spark-submit jobs/fold_in.py --config mine.yaml --dry-run
dcrec fold-in --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import main

if __name__ == "__main__":
    main("fold-in")
