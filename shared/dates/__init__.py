"""What dates and times mean that people write, such as "next weekend" or "tomorrow at 9"; no holidays, no schedules."""
