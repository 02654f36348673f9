# %% [markdown]
# # How many people?
#
# Before any data: what can be promised? A plan is computed from public numbers only, so it costs nothing and may be
# shown to anybody.

# %%
import polars as pl

import privpac as pp

cuts = pp.Thresholds(pp.Grid(0, 40, "0.1"), "bilirubin")
planned = pp.plan(cuts, epsilon=1, alpha="0.05", records_per_user=(1, 4, 16))
planned

# %% [markdown]
# *Certified* numbers hold whatever the people are like and are mostly too large. *No method can*: with fewer people
# every private method fails for some kind of people. *Typical*: a simulation of one kind of people.
#
# The same as a frame, to filter and to plot:

# %%
planned.to_frame().filter(pl.col("method") == "hybrid selection").select("kind", "records_per_user", "users")

# %% [markdown]
# The other way round: three hundred patients with six visits each. Which ε would it take for a certified excess error
# of 10 points?

# %%
pp.plan(cuts, n_users=300, alpha="0.1", records_per_user=6)

# %% [markdown]
# What an ε means, in odds:

# %%
pp.Guarantee("1/2", unit="user", neighbours="add-remove")

# %%
pp.Guarantee(4, unit="user", neighbours="add-remove")
