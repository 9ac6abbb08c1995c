"""What the embedded model can do, measured line by line: `python -m segue_drive.evaluation.run`."""
