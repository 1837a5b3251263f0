"""What every chat platform needs: buttons, notices, uploads; a platform's own parts are in its folder."""
