"""Policy reports for other programs: which pods break rules, and which nodes publish no topology."""
