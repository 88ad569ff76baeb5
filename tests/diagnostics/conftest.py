"""What the tests of StarPO share is of use here too."""

from tests.starpo.conftest import local_ray, model, one_thread

__all__ = ["local_ray", "model", "one_thread"]
