//! The one place that relies on how arkworks lays its types out in memory.
