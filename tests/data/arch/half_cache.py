"""Lets models of transformers keep keys and values in half precision, as engines do. The scripts for tiny models import
it."""
import contextlib

import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@contextlib.contextmanager
def cache_of_halves(model):
    """Keys and values, or the latents they are made of, are rounded to half precision, as a cache has them."""
    attention = [type(module) for module in model.modules() if hasattr(module, "expand_kv")]
    owner, name = (attention[0], "expand_kv") if attention else (type(ALL_ATTENTION_FUNCTIONS), "get_interface")
    original = getattr(owner, name)

    def expand_kv(self, latent, key):
        return original(self, latent.half().float(), key.half().float())

    def get_interface(self, *arguments):
        function = original(self, *arguments)
        return lambda module, q, k, v, *more, **named: function(module, q, k.half().float(), v.half().float(), *more, **named)

    update = transformers.Cache.update_indexer

    def update_indexer(self, key, *arguments):
        return update(self, key.half().float(), *arguments)

    setattr(owner, name, expand_kv if attention else get_interface)
    transformers.Cache.update_indexer = update_indexer
    try:
        yield
    finally:
        setattr(owner, name, original)
        transformers.Cache.update_indexer = update
