# %% [markdown]
# # Plot the attention of a translation
# Open this file as a notebook (Jupyter with jupytext, VS Code) or run it as a script.
# It needs `pip install 'glassformer[train,plots]'`.

# %%
import glassformer as gf
from glassformer.inspect.pictures import heads_figure, word_links
from glassformer.inspect.trace import trace_of

MODEL, TEXT, FOLDER = "en-fr", "Two dogs are playing in the snow.", "."

# %% [markdown]
# A trace holds all that the model computed for one text: tokens, attention of every head, the tree
# of the beam search, saliency (docs/trace.md).

# %%
trace = trace_of(gf.load(MODEL, engine="torch"), TEXT, name=MODEL)
print(trace.target.text)
print({kind: tuple(maps.shape) for kind, maps in trace.attention.items()})

# %% [markdown]
# Words of the source and of the translation, linked by the cross-attention of all heads. In a
# notebook the last line of a cell is shown.

# %%
links = word_links(trace)
links.savefig(f"{FOLDER}/links.png", dpi=150)
links

# %% [markdown]
# Every head of every layer of the cross-attention.

# %%
heads = heads_figure(trace, "cross")
heads.savefig(f"{FOLDER}/heads.png", dpi=150)
heads

# %% [markdown]
# The numbers themselves are tensors. Which head of the last layer has the sharpest attention?

# %%
cross = trace.attention["cross"][-1]  # heads, target tokens, source tokens
entropy = -(cross * cross.clamp(min=1e-12).log()).sum(-1).mean(-1)
print(f"sharpest head of the last layer: {int(entropy.argmin()) + 1}, {entropy.min():.2f} nats")
