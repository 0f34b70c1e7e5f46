"""The texts whose scores make_rank_models.py computes, and tests/api/test_rerank.py asks for."""
QUERY = "which fox is quick"
DOCUMENTS = ["the quick brown fox", "a", "which dog is lazy", "x y z", "which fox is quick",
             "a b c d e f g h i j k l m n o p q r s t u v w x y z"]
