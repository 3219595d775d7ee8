"""The least that a Streamlit page can be: what `bench ui` holds the course's pages against."""

import streamlit as st

st.html('<p class="bare">One line.</p>')
