"""Makes the tiny random rerankers of this folder and the scores that they should give, with the PyPI packages
transformers and gguf.

usage: make_rank_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it. NAME.scores are little-endian float32 [n_documents, n_scores] of the
query and the documents of rank_texts.py, computed in float32 by transformers, before a sigmoid or softmax.
"""
import torch
import transformers

from jina_bert import JinaBert
from make_encoder_models import COMMON, JINA_V2_NAMES, KEYS, LONG, MODERN_KEYS, MODERN_NAMES, bert, modern_config
from rank_texts import DOCUMENTS, QUERY
from tiny_models import LLAMA, N_VOCAB, QK_NORMS, Tiny, make_all, of_rope, sizes

TEMPLATE = "<s>Judge the document.\nQuery: {query}\nDocument: {document}</s>"


def letters(text):
    """The tokens of a text, of the vocabularies "bert" and "unigram": each word begins with a token of its own."""
    tokens = []
    for word in text.split():
        tokens += [5 + ord(word[0]) - 33] + [99 + ord(c) - 33 for c in word[1:]]
    return tokens


def of_pairs(begin, between, end, types=True):
    """Golden scores of an encoder. between: tokens between the texts, of which the first belongs to the query."""
    def scores(model):
        rows = []
        for document in DOCUMENTS:
            first = [begin, *letters(QUERY), *between]
            second = [*letters(document), end]
            kinds = [0] * len(first) + [1] * len(second)
            given = {"token_type_ids": torch.tensor([kinds])} if types else {}
            rows.append(model(torch.tensor([first + second]), **given).logits[0])
        return {"scores": torch.stack(rows)}
    return scores


def named(name, data):
    """GGUF's names of the head have a dot, which tensors_of() reads as the suffix."""
    return [(name.replace("cls_", "cls."), data)]


def ranker(arch, config, keys, names, golden, vocabulary="bert", change=named, **more):
    return Tiny(arch, config, keys, names, change, vocabulary=vocabulary, more_golden=golden,
                auto=transformers.AutoModelForSequenceClassification, **more)


def bert_rank():
    """A cross-encoder: type 1 for the tokens of the document; the pooler's dense layer, tanh, then the score."""
    names = {name if "." not in name or not name.startswith(("embeddings", "pooler")) else f"bert.{name}": to
             for name, to in bert().names.items()}
    names |= {"bert.pooler.dense": "cls", "classifier": "cls_output"}
    return ranker("bert", transformers.BertConfig(**COMMON, num_labels=1), KEYS, names, of_pairs(2, [3], 3),
                  layers=("layer",))


def xlm_roberta_rank():
    """BGE's rerankers: positions from pad + 1 on, which the file leaves out; <s> query </s></s> document </s>."""
    common = {**COMMON, "max_position_embeddings": 66, "type_vocab_size": 1}
    config = transformers.XLMRobertaConfig(**common, num_labels=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    names = {f"roberta.{name}" if name.startswith("embeddings") else name: to for name, to in bert().names.items()}
    names |= {"classifier.dense": "cls", "classifier.out_proj": "cls_output"}

    def change(name, data):
        return named(name, data[2:] if name == "position_embd.weight" else data)

    keys = {**KEYS, "classifier.output_labels": ["LABEL_0"]}
    return ranker("bert", config, keys, names, of_pairs(0, [2, 2], 2, types=False), "unigram", change,
                  layers=("layer",), converts=False)


def jina_bert_v2_rank():
    """Jina's rerankers 1: bert's head on jina-bert-v2."""
    model = JinaBert(labels=1)
    names = {**JINA_V2_NAMES, "pooler.dense": "cls", "classifier": "cls_output"}
    return Tiny("jina-bert-v2", model.config, {**KEYS, "context_length": LONG}, names, named, layers=("layer",),
                build=lambda: model, vocabulary="bert", more_golden=of_pairs(2, [3], 3))


def modern_bert_rank():
    """The mean, a dense layer, gelu and a norm before the score."""
    config = modern_config(num_labels=1, classifier_pooling="mean")
    names = {name if name.startswith(("attn", "mlp")) else f"model.{name}": to for name, to in MODERN_NAMES.items()}
    names |= {"head.dense": "cls", "head.norm": "cls_norm", "classifier": "cls_output"}
    keys = {**MODERN_KEYS, "classifier.pooling_type": 1}
    return ranker("modern-bert", config, keys, names, of_pairs(2, [3], 3, types=False))


def qwen3_rank():
    """Qwen3-Reranker: cls.output is the rows of the tokens yes and no of the output matrix; a template of its own."""
    config = transformers.Qwen3Config(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True,
        rope_parameters=of_rope())
    yes, no = 100, 200

    def scores(model):
        rows = []
        for document in DOCUMENTS:
            text = TEMPLATE.format(query=QUERY, document=document).removeprefix("<s>").removesuffix("</s>")
            tokens = [1, *(3 + byte for byte in text.replace(" ", "\u2581").encode()), 2]
            rows.append(model(torch.tensor([tokens])).logits[0, -1, [yes, no]])
        return {"scores": torch.stack(rows)}

    def change(name, data):
        head = [("cls.output.weight", data[[yes, no]])] if name == "token_embd.weight" else []
        return [(name, data), *head]

    keys = sizes(config, pooling_type=4)
    keys["classifier.output_labels"] = ["yes", "no"]
    template = {"tokenizer.chat_template.rerank": TEMPLATE, "tokenizer.ggml.add_space_prefix": False}
    return Tiny("qwen3", config, keys, {**LLAMA, **QK_NORMS}, change, more_golden=scores, whole_keys=template,
                converts=False)


MODELS = {
    "bert-rank": bert_rank,
    "xlm-roberta-rank": xlm_roberta_rank,
    "jina-bert-v2-rank": jina_bert_v2_rank,
    "modern-bert-rank": modern_bert_rank,
    "qwen3-rank": qwen3_rank,
}

if __name__ == "__main__":
    make_all(MODELS)
