"""MaxPool of images in blocks of channels."""
