"""The systems that nimblepy is measured beside."""
