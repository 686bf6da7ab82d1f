"""The host operator that decodes image files."""

import importlib.util
from functools import partial
from io import BytesIO

import numpy as np

from compiler.frontend.unsupported import Unsupported
from compiler.program.host.registry import HostCall, HostFunction, host_operator

FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that ONNX names, as Pillow calls them."""


@host_operator("ImageDecoder", first=20)
def image_decoder(call: HostCall) -> HostFunction:
    """The pixels of an image file, uint8[height, width, channels], decoded by Pillow.

    Raises Unsupported where Pillow is not installed, and ValueError for an unknown pixel format.
    """
    if importlib.util.find_spec("PIL") is None:
        raise Unsupported("Pillow, which decodes images, is not installed", "install pillow")
    pixels = call.attributes.get("pixel_format", "RGB")
    if pixels not in ("RGB", "BGR", "Grayscale"):
        raise ValueError(f"its pixel_format is {pixels!r}, not RGB, BGR or Grayscale")
    return partial(_decoded, pixels)


def _decoded(pixels: str, encoded: np.ndarray) -> tuple[np.ndarray]:
    """The pixels of a file; raises ValueError if it is of no format that ONNX names."""
    from PIL import Image  # optional

    try:
        with Image.open(BytesIO(encoded.tobytes()), formats=FORMATS) as image:
            decoded = np.asarray(image.convert("L" if pixels == "Grayscale" else "RGB"))
    except Exception as error:  # of a damaged file, each of Pillow's plugins raises its own
        raise ValueError(f"the image cannot be decoded ({error})") from error
    if pixels == "Grayscale":
        return (decoded[:, :, None],)
    return (decoded[:, :, ::-1] if pixels == "BGR" else decoded,)
