"""Interview practice: questions, and drills made from recorded runs. No engine in here."""
