"""A saved model, its training ratings and held-out ones in; metrics and a report out. See ``--help``.

spark-submit jobs/evaluate.py --config mine.yaml --dry-run
dcrec evaluate --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import main

if __name__ == "__main__":
    main("evaluate")
